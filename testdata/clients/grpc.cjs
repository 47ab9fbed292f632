// node grpc.cjs plain|tls HOST:PORT [FILE]: a unary call of google.protobuf.BytesValue, nothing or a
// file; prints the answer's bytes.
const { readFileSync } = require("node:fs");
const grpc = require("@grpc/grpc-js");

const [kind, target, file] = process.argv.slice(2);
const credentials = kind === "tls" ? grpc.credentials.createSsl(readFileSync(process.env.SSL_CERT_FILE)) : grpc.credentials.createInsecure();
const client = new grpc.Client(target, credentials);

// Field 1, by hand: a compiler of .proto files would be more than this call needs.
function encode(value) {
  const head = [0x0a];
  for (let n = value.length; ; n >>>= 7) {
    head.push(n < 128 ? n : (n & 127) | 128);
    if (n < 128) return Buffer.concat([Buffer.from(head), value]);
  }
}

function decode(message) {
  let i = 1;
  while (message[i] & 128) i++;
  return message.subarray(i + 1);
}

const body = file ? readFileSync(file) : Buffer.alloc(0);
client.makeUnaryRequest("/test.Echo/Echo", encode, decode, body, { deadline: Date.now() + 60_000 }, (err, answer) => {
  if (err) throw err;
  process.stdout.write(answer);
  client.close();
});
