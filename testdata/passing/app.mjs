// The program around the Node of docs/passing.md.
import http from "node:http";
import { headers, receive } from "./onward.mjs";

const call = async (h) => (await fetch(process.env.NEXT, { headers: h })).text();

const server = http.createServer((req, res) =>
  receive(req, res, async () => {
    let body;
    if (req.url === "/now") body = await call(headers());
    else if (req.url === "/later") body = await new Promise((done) => setTimeout(() => done(call(headers())), 1));
    else body = await call({});
    res.end(body);
  }),
);
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
