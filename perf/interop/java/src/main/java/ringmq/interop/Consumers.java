package ringmq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Push consumers. Each message is printed as an event, then reported to the broker as consumed: at once, or by an orderly
 * consumer when the command "handled" comes with the event's token.
 */
final class Consumers {
    private final Named<DefaultMQPushConsumer> running = new Named<>();
    private final Consumer<JSONObject> print;
    private final AtomicLong lastToken = new AtomicLong();
    private final ConcurrentHashMap<Long, CountDownLatch> handling = new ConcurrentHashMap<>();

    Consumers(Consumer<JSONObject> print) {
        this.print = print;
    }

    Object start(JSONObject c) throws Exception {
        String name = c.getString("name");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(c.getString("group"));
        consumer.setNamesrvAddr(c.getString("namesrv"));
        consumer.setInstanceName(name);
        consumer.setMqClientApiTimeout(Driver.PATIENCE_MS);
        consumer.setMessageModel(c.getBooleanValue("broadcast") ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        if (c.getIntValue("maxTries") > 0) {
            consumer.setMaxReconsumeTimes(c.getIntValue("maxTries"));
        }
        int failBelow = c.getIntValue("failBelow");
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(c.getString("from")));
        consumer.subscribe(c.getString("topic"), c.containsKey("sql")
            ? MessageSelector.bySql(c.getString("sql")) : MessageSelector.byTag(c.getString("tags")));
        if (c.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                for (MessageExt m : messages) {
                    handleOrderly(name, m);
                }
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt m : messages) {
                    print.accept(event(name, m));
                }
                return messages.stream().anyMatch(m -> m.getReconsumeTimes() < failBelow)
                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        running.put(c, consumer);
        return null;
    }

    private static JSONObject event(String name, MessageExt m) {
        return JSONObject.of("event", "message", "name", name, "message", Messages.format(m));
    }

    /** Returns when the test says that it has handled the message. */
    private void handleOrderly(String name, MessageExt m) {
        long token = lastToken.incrementAndGet();
        CountDownLatch handled = new CountDownLatch(1);
        handling.put(token, handled);
        print.accept(event(name, m).fluentPut("token", token));
        try {
            handled.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the consumer is being shut down
        }
    }

    Object handled(JSONObject c) {
        handling.remove(c.getLong("token")).countDown();
        return null;
    }

    /** The ids of the queues of a topic that the consumer holds at this moment. */
    Object queues(JSONObject c) {
        List<Integer> ids = running.get(c).getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable()
            .keySet().stream().filter(q -> q.getTopic().equals(c.getString("topic"))).map(MessageQueue::getQueueId)
            .sorted().toList();
        return ids;
    }

    Object stop(JSONObject c) {
        running.remove(c).shutdown();
        return null;
    }
}
