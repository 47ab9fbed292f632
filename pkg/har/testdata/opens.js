// What the Network panel of Chromium's developer tools makes of an archive, which is
// loaded as a user drops it there. Runs on the panel's own page.
(async (text) => {
  const {ViewManager} = await import('./ui/legacy/legacy.js');
  const {NetworkPanel} = await import('./panels/network/network.js');
  const {HARFormat, Importer} = await import('./models/har/har.js');
  const log = new HARFormat.HARRoot(JSON.parse(text)).log; // throws on what is no HAR

  await ViewManager.ViewManager.instance().showView('network');
  const view = NetworkPanel.NetworkPanel.instance().networkLogView;
  await view.onLoadFromFile(new File([text], 'lane.har', {type: 'application/json'}));
  const rows = () => [...view.element.querySelectorAll('tr')].map((r) => r.innerText.replace(/\s+/g, ' ').trim());
  const want = log.entries.length;
  for (let i = 0; i < 200 && rows().filter((r) => r).length < want + 1; i++) {
    await new Promise((done) => setTimeout(done, 100));
  }

  const requests = [];
  for (const r of Importer.Importer.requestsFromHARLog(log)) {
    const body = await r.requestContentData();
    requests.push({
      method: r.requestMethod, url: r.url(), status: r.statusCode, address: r.remoteAddress(), type: r.resourceType().name(),
      mime: r.mimeType ?? '', protocol: r.protocol, requestHeaders: r.requestHeaders().map((h) => h.name + ': ' + h.value),
      responseHeaders: r.responseHeaders.map((h) => h.name + ': ' + h.value),
      requestCookies: r.includedRequestCookies().map((c) => c.cookie.name() + '=' + c.cookie.value()),
      responseCookies: r.responseCookies.map((c) => [c.name() + '=' + c.value(), c.path(), c.httpOnly(), c.secure()].join(' ')),
      query: (r.queryParameters ?? []).map((p) => p.name + '=' + p.value), post: (await r.requestFormData()) ?? '',
      text: body.isTextContent ? body.text : '', base64: body.isTextContent ? '' : body.base64,
      took: Math.round(r.duration * 1e6) / 1e3, size: r.resourceSize, transferred: r.transferSize,
    });
  }
  return {rows: rows(), requests};
})
