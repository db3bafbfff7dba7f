package ringmq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.concurrent.ConcurrentHashMap;

/** The running clients of one kind, by the name that the test gave them. */
final class Named<T> {
    private final ConcurrentHashMap<String, T> all = new ConcurrentHashMap<>();

    void put(JSONObject command, T client) {
        if (all.putIfAbsent(command.getString("name"), client) != null) {
            throw new IllegalStateException("name in use: " + command);
        }
    }

    T get(JSONObject command) {
        T client = all.get(command.getString("name"));
        if (client == null) {
            throw new IllegalStateException("nothing of that name runs: " + command);
        }
        return client;
    }

    T remove(JSONObject command) {
        T client = get(command);
        all.remove(command.getString("name"));
        return client;
    }
}
