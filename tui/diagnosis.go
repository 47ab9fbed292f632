package tui

import (
	"context"
	"errors"
	"io"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/doctor"
)

// diagnosis is the pane of what lane doctor finds.
type diagnosis struct {
	found []doctor.Finding
	at    time.Time // of the look
	under bool      // it is being made
	err   string
}

// diagnosisMsg is what came of it.
type diagnosisMsg struct {
	found []doctor.Finding
	err   error
}

// examine opens the pane and has it made anew.
func (m model) examine() model {
	if m.screen == screenDoctor {
		return m.open(screenDoctor) // closes it
	}
	return m.open(screenDoctor).diagnose()
}

// diagnose has the diagnosis made anew.
func (m model) diagnose() model {
	if m.diagnosis.under {
		return m
	}
	d := m.deeds
	m.diagnosis = diagnosis{under: true}
	m.async(func(ctx context.Context) tea.Msg {
		found, err := d.Doctor(ctx)
		return diagnosisMsg{found, err}
	})
	return m
}

func (m model) diagnosed(msg diagnosisMsg) model {
	m.diagnosis = diagnosis{found: msg.found, at: m.now}
	if errors.Is(msg.err, io.EOF) {
		m.diagnosis.err = "the session has ended; `lane doctor` looks at the rest"
	} else if msg.err != nil {
		m.diagnosis.err = msg.err.Error()
	}
	return m
}

// diagnosisText is the pane in lines of at most w columns: what is wrong, then what is
// worth a look, then what is well.
func (m *model) diagnosisText(w int) []cell {
	p := &page{t: m.fixed.text, w: w}
	d := &m.diagnosis
	switch {
	case d.under:
		p.put(0, "Looking at all that lane depends on: 15 s at most ...", plain)
		return p.lines
	case d.err != "":
		p.put(0, "No diagnosis: "+d.err, badText)
		return p.lines
	}
	wrong := doctor.Count(d.found, doctor.Wrong) + doctor.Count(d.found, doctor.Away)
	p.put(0, plural(wrong, "thing")+" wrong, "+plural(doctor.Count(d.found, doctor.Note), "note")+", "+count(uint64(doctor.Count(d.found, doctor.Well)))+" ok", bold)
	if m.ended() {
		p.put(0, "As of "+clock(d.at, m.now, m.fixed.loc)+": the session has ended since, and what stands here of it is no longer so.", badText)
	} else {
		p.put(0, "As of "+clock(d.at, m.now, m.fixed.loc)+"; R looks again.", faint)
	}
	p.blank()
	for _, levels := range [][]doctor.Level{{doctor.Wrong, doctor.Away}, {doctor.Note}, {doctor.Well}} {
		for i := range d.found {
			f := &d.found[i]
			if f.Level != levels[0] && f.Level != levels[len(levels)-1] {
				continue
			}
			look := map[doctor.Level]class{doctor.Wrong: badText, doctor.Away: badText, doctor.Note: warnText}[f.Level]
			what := f.Check + ": " + f.What
			if f.Where != "" {
				what += " [" + f.Where + "]"
			}
			p.field(levelWord(f.Level), what, look)
			if f.Do != "" {
				p.field(" ", "-> "+f.Do, plain)
			}
		}
	}
	return p.lines
}

func levelWord(l doctor.Level) string {
	if l == doctor.Away {
		return "wrong"
	}
	return string(l)
}
