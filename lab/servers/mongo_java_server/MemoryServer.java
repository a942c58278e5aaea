import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.ServerVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/**
 * Serves an empty database from memory. Arguments: address and port to listen on, and optionally the
 * wire version that it claims, for clients that refuse its own.
 *
 * The library's own main program listens on one fixed port.
 */
final class MemoryServer {
    public static void main(String[] arguments) {
        MemoryBackend backend = new MemoryBackend();
        if (arguments.length > 2) {
            int wireVersion = Integer.parseInt(arguments[2]);
            backend.version(new MongoVersion() {
                @Override
                public List<Integer> getVersionArray() {
                    return ServerVersion.MONGO_5_0.getVersionArray();
                }

                @Override
                public int getWireVersion() {
                    return wireVersion;
                }
            });
        }
        MongoServer server = new MongoServer(backend);
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
        server.bind(arguments[0], Integer.parseInt(arguments[1]));
    }
}
