package lane

import "testing"

func TestCheckWord(t *testing.T) {
	for _, s := range []string{"test", "eu-1", "cn-hangzhou/b", "v1.2.3-rc.1+build~5", "acme@eu", "测试", "é", "7", "a:b_c"} {
		if err := CheckWord(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", "a b", " a", "a\t", "a\u00a0b", "a\u200bb", "a,b", "a;b", "a=b", `a"b`, "a'b", "a\\b", "a%b", "{a}", "a\x01", "a\xff", "a\nb"} {
		if CheckWord(s) == nil {
			t.Errorf("%q is taken", s)
		}
	}
}
