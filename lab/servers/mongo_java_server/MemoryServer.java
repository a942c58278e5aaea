import de.bwaldvogel.mongo.InMemoryMongoServer;

/**
 * Serves an empty database from memory. Arguments: address and port to listen on.
 *
 * The library's own main program listens on one fixed port.
 */
final class MemoryServer {
    public static void main(String[] arguments) {
        InMemoryMongoServer server = new InMemoryMongoServer();
        Runtime.getRuntime().addShutdownHook(new Thread(server::shutdownNow));
        server.bind(arguments[0], Integer.parseInt(arguments[1]));
    }
}
