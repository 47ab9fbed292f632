"""The program around the Python of docs/passing.md, for ASGI: a server of the bare
necessities that keeps its connections."""
import asyncio
import os
import urllib.request

import onward

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(headers):
    with direct.open(urllib.request.Request(os.environ["NEXT"], headers=headers)) as answer:
        return answer.read()


async def app(scope, receive, send):
    if scope["path"] == "/now":
        body = await asyncio.to_thread(call, onward.headers())
    elif scope["path"] == "/later":

        async def work():
            await asyncio.sleep(0)
            return await asyncio.to_thread(lambda: call(onward.headers()))

        body = await asyncio.create_task(work())
    else:
        body = await asyncio.to_thread(call, {})
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


whole = onward.ASGI(app)


async def serve(reader, writer):
    while line := await reader.readline():
        path, headers = line.split()[1].decode(), []
        while (line := await reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            headers.append((name.strip().lower(), value.strip()))

        async def send(message):
            if message["type"] == "http.response.body":
                body = message["body"]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                await writer.drain()

        await whole({"type": "http", "path": path, "headers": headers}, None, send)
    writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
