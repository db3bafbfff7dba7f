package ringmq.interop;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;

/**
 * Lets a test in another language use the stock Java client: one command per line of standard input, one answer or
 * event per line of standard output, all of them JSON objects.
 *
 * <pre>
 *   in   {"id":7,"op":"send","name":"p1","mode":"sync","messages":[{"topic":"t","body":"aGk="}]}
 *   out  {"id":7,"result":{"status":"SEND_OK","queue":2,"offset":0,"msgId":"..."}}
 *   out  {"id":8,"error":"MQBrokerException: CODE: 13 ...","code":13}
 *   out  {"event":"message","name":"c1","message":{...}}
 *   out  {"event":"message","name":"c2","token":5,"message":{...}}
 *   in   {"id":9,"op":"consumer.handled","name":"c2","token":5}
 * </pre>
 *
 * Commands run side by side, so answers come in any order; the id pairs them. End of input ends the process without
 * closing the clients, as a crash would: whoever wants them closed says so.
 */
public final class Driver {
    /** For what a client asks of a node at its start, in place of 3 s: the machine may be busy with other work. */
    static final int PATIENCE_MS = 60_000;

    private final PrintStream out;
    private final ExecutorService workers = Executors.newCachedThreadPool();
    private final Producers producers = new Producers();
    private final Consumers consumers = new Consumers(this::print);
    private final Pullers pullers = new Pullers();

    private Driver(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        Driver driver = new Driver(new PrintStream(System.out, false, StandardCharsets.UTF_8));
        System.setOut(System.err); // whatever a library prints must not mix with the answers
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject command = JSON.parseObject(line);
            driver.workers.execute(() -> driver.serve(command));
        }
        Runtime.getRuntime().halt(0);
    }

    private void serve(JSONObject command) {
        JSONObject answer = JSONObject.of("id", command.getLong("id"));
        try {
            answer.put("result", run(command));
        } catch (Throwable e) { // an Error too must reach the test, not kill a worker
            answer.put("error", e.getClass().getSimpleName() + ": " + e.getMessage());
            answer.put("code", codeOf(e));
        }
        print(answer);
    }

    private Object run(JSONObject c) throws Exception {
        return switch (c.getString("op")) {
            case "ping" -> "pong";
            case "producer.start" -> producers.start(c);
            case "producer.stop" -> producers.stop(c);
            case "producer.createTopic" -> producers.createTopic(c);
            case "send" -> producers.send(c);
            case "consumer.start" -> consumers.start(c);
            case "consumer.queues" -> consumers.queues(c);
            case "consumer.handled" -> consumers.handled(c);
            case "consumer.stop" -> consumers.stop(c);
            case "puller.start" -> pullers.start(c);
            case "puller.queues" -> pullers.queues(c);
            case "puller.pull" -> pullers.pull(c);
            case "puller.stop" -> pullers.stop(c);
            default -> throw new IllegalArgumentException("no such op: " + c);
        };
    }

    /** The response code of the broker or of the client, -1 if the failure carries none. */
    private static int codeOf(Throwable e) {
        for (Throwable t = e; t != null; t = t.getCause()) {
            if (t instanceof MQBrokerException b) {
                return b.getResponseCode();
            }
            if (t instanceof MQClientException m) {
                return m.getResponseCode();
            }
        }
        return -1;
    }

    private void print(JSONObject line) {
        synchronized (out) {
            out.println(line.toJSONString());
            out.flush();
        }
    }
}
