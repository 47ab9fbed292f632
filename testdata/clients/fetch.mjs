// node fetch.mjs URL [FILE]: GET, or POST of a file; prints the answer's body.
import { readFileSync } from "node:fs";

const [url, file] = process.argv.slice(2);
const answer = await fetch(url, file ? { method: "POST", body: readFileSync(file) } : {});
if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
process.stdout.write(Buffer.from(await answer.arrayBuffer()));
