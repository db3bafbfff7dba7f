package ringmq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send, and the creation of topics, which the client offers on its producer. */
final class Producers {
    private final Named<DefaultMQProducer> running = new Named<>();

    Object start(JSONObject c) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer(c.getString("group"));
        p.setNamesrvAddr(c.getString("namesrv"));
        p.setInstanceName(c.getString("name"));
        p.setMqClientApiTimeout(Driver.PATIENCE_MS);
        p.setVipChannelEnabled(c.getBooleanValue("vip"));
        p.setMaxMessageSize(64 << 20); // the node is to judge the size, not the client
        p.setSendMsgTimeout(c.getIntValue("timeoutMs"));
        p.start();
        running.put(c, p);
        return null;
    }

    Object stop(JSONObject c) {
        running.remove(c).shutdown();
        return null;
    }

    Object createTopic(JSONObject c) throws Exception {
        running.get(c).createTopic(c.getString("key"), c.getString("topic"), c.getIntValue("queues"), Map.of());
        return null;
    }

    Object send(JSONObject c) throws Exception {
        DefaultMQProducer p = running.get(c);
        List<Message> messages = new ArrayList<>();
        for (Object o : c.getJSONArray("messages")) {
            messages.add(Messages.parse((JSONObject) o));
        }
        Message first = messages.get(0);
        MessageQueue queue = queue(p, first.getTopic(), c.getInteger("queue"));
        return switch (c.getString("mode")) {
            case "sync" -> format(queue == null ? p.send(first) : p.send(first, queue));
            case "async" -> format(async(p, first, queue));
            case "oneway" -> {
                if (queue == null) {
                    p.sendOneway(first);
                } else {
                    p.sendOneway(first, queue);
                }
                yield null;
            }
            case "batch" -> format(queue == null ? p.send(messages) : p.send(messages, queue));
            default -> throw new IllegalArgumentException("no such mode: " + c);
        };
    }

    private static MessageQueue queue(DefaultMQProducer p, String topic, Integer id) throws MQClientException {
        if (id == null) {
            return null;
        }
        for (MessageQueue q : p.fetchPublishMessageQueues(topic)) {
            if (q.getQueueId() == id) {
                return q;
            }
        }
        throw new IllegalArgumentException("topic " + topic + " has no queue " + id);
    }

    private static SendResult async(DefaultMQProducer p, Message m, MessageQueue q) throws Exception {
        CompletableFuture<SendResult> done = new CompletableFuture<>();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                done.complete(result);
            }

            @Override
            public void onException(Throwable e) {
                done.completeExceptionally(e);
            }
        };
        if (q == null) {
            p.send(m, callback);
        } else {
            p.send(m, q, callback);
        }
        return done.get();
    }

    private static JSONObject format(SendResult r) {
        return JSONObject.of("status", r.getSendStatus().name())
            .fluentPut("queue", r.getMessageQueue().getQueueId())
            .fluentPut("offset", r.getQueueOffset())
            .fluentPut("msgId", r.getMsgId())
            .fluentPut("offsetMsgId", r.getOffsetMsgId());
    }
}
