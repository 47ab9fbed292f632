// The program around the Java of docs/passing.md.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

public final class App {
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static final ExecutorService POOL = Executors.newFixedThreadPool(1);

    static byte[] call(Map<String, String> headers) {
        try {
            HttpRequest.Builder b = HttpRequest.newBuilder(URI.create(System.getenv("NEXT")));
            headers.forEach(b::header);
            return CLIENT.send(b.build(), HttpResponse.BodyHandlers.ofByteArray()).body();
        } catch (IOException | InterruptedException e) {
            return e.toString().getBytes();
        }
    }

    static byte[] answer(String path) throws Exception {
        switch (path) {
            case "/now":
                return call(Onward.headers());
            case "/later":
                CompletableFuture<byte[]> said = new CompletableFuture<>();
                POOL.submit(Onward.with(() -> said.complete(call(Onward.headers()))));
                return said.get();
            case "/pool": // a thread that nothing was handed to
                return POOL.submit(() -> call(Onward.headers())).get();
            default:
                return call(Map.of());
        }
    }

    public static void main(String[] args) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", (HttpExchange x) -> {
            try (Onward o = new Onward(x.getRequestHeaders()::getFirst)) {
                byte[] body = answer(x.getRequestURI().getPath());
                x.sendResponseHeaders(200, body.length);
                x.getResponseBody().write(body);
            } catch (Exception e) {
                throw new IOException(e);
            } finally {
                x.close();
            }
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        System.out.println(server.getAddress().getPort());
    }
}
