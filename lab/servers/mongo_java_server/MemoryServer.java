import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.ServerVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

/**
 * Serves an empty database from memory. Arguments: address and port to listen on, and optionally
 * the version of MongoDB that it claims to be, such as MONGO_5_0.
 *
 * The library's own main program listens on one fixed port.
 */
final class MemoryServer {
    public static void main(String[] arguments) {
        MemoryBackend backend = new MemoryBackend();
        if (arguments.length > 2) {
            backend.version(ServerVersion.valueOf(arguments[2]));
        }
        MongoServer server = new MongoServer(backend);
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
        server.bind(arguments[0], Integer.parseInt(arguments[1]));
    }
}
