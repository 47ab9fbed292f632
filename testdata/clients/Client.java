import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** java Client URLConnection|HttpClient URL [FILE]: GET, or POST of a file; prints the answer's body. */
public final class Client {
    public static void main(String[] args) throws Exception {
        byte[] body = args.length > 2 ? Files.readAllBytes(Path.of(args[2])) : null;
        byte[] answer = args[0].equals("HttpClient") ? httpClient(args[1], body) : urlConnection(args[1], body);
        System.out.write(answer);
        System.out.flush();
    }

    private static byte[] urlConnection(String url, byte[] body) throws Exception {
        HttpURLConnection c = (HttpURLConnection) URI.create(url).toURL().openConnection();
        if (c instanceof HttpsURLConnection) {
            ((HttpsURLConnection) c).setSSLSocketFactory(trust().getSocketFactory());
        }
        if (body != null) {
            c.setDoOutput(true);
            c.getOutputStream().write(body);
        }
        try (InputStream in = c.getInputStream()) {
            return in.readAllBytes();
        }
    }

    private static byte[] httpClient(String url, byte[] body) throws Exception {
        HttpRequest.Builder b = HttpRequest.newBuilder(URI.create(url));
        if (body != null) {
            b.POST(HttpRequest.BodyPublishers.ofByteArray(body));
        }
        HttpResponse<byte[]> r = HttpClient.newBuilder().sslContext(trust()).build()
                .send(b.build(), HttpResponse.BodyHandlers.ofByteArray());
        if (r.statusCode() != 200) {
            throw new IOException("status " + r.statusCode());
        }
        return r.body();
    }

    /**
     * Trusts the one certificate that SSL_CERT_FILE names, which a JVM does not read by itself;
     * but what a JVM trusts by itself where its options name a store.
     */
    private static SSLContext trust() throws Exception {
        if (System.getProperty("javax.net.ssl.trustStore") != null) {
            return SSLContext.getDefault();
        }
        KeyStore keys = KeyStore.getInstance(KeyStore.getDefaultType());
        keys.load(null, null);
        try (InputStream in = new FileInputStream(System.getenv("SSL_CERT_FILE"))) {
            keys.setCertificateEntry("test", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory f = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        f.init(keys);
        SSLContext c = SSLContext.getInstance("TLS");
        c.init(null, f.getTrustManagers(), null);
        return c;
    }
}
