# python3 urllib.py URL [FILE]: GET, or POST of a file; prints the answer's body.
import sys
import urllib.request

data = open(sys.argv[2], "rb").read() if len(sys.argv) > 2 else None
with urllib.request.urlopen(sys.argv[1], data, timeout=60) as answer:
    sys.stdout.buffer.write(answer.read())
