package ringmq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.List;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** Push consumers. Each message is printed as an event, then reported to the broker as consumed. */
final class Consumers {
    private final Named<DefaultMQPushConsumer> running = new Named<>();
    private final Consumer<JSONObject> print;

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
        consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf(c.getString("from")));
        consumer.subscribe(c.getString("topic"), c.containsKey("sql")
            ? MessageSelector.bySql(c.getString("sql")) : MessageSelector.byTag(c.getString("tags")));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt m : messages) {
                print.accept(JSONObject.of("event", "message", "name", name, "message", Messages.format(m)));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        running.put(c, consumer);
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
