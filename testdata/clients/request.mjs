// node request.mjs URL [FILE]: as fetch.mjs, with the older http and https modules.
import { readFileSync } from "node:fs";
import http from "node:http";
import https from "node:https";

const [url, file] = process.argv.slice(2);
const client = url.startsWith("https:") ? https : http;
const request = client.request(url, { method: file ? "POST" : "GET" }, (answer) => {
  if (answer.statusCode !== 200) throw new Error(`${answer.statusCode} ${answer.statusMessage}`);
  answer.pipe(process.stdout);
});
request.end(file && readFileSync(file));
