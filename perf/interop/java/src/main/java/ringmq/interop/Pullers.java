package ringmq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pull consumers: any queue, any offset, no group work. */
@SuppressWarnings("deprecation") // the client's only consumer that reads one queue at one offset
final class Pullers {
    private final Named<DefaultMQPullConsumer> running = new Named<>();

    Object start(JSONObject c) throws Exception {
        DefaultMQPullConsumer puller = new DefaultMQPullConsumer(c.getString("group"));
        puller.setNamesrvAddr(c.getString("namesrv"));
        puller.setInstanceName(c.getString("name"));
        puller.setMqClientApiTimeout(Driver.PATIENCE_MS);
        puller.start();
        running.put(c, puller);
        return null;
    }

    Object stop(JSONObject c) {
        running.remove(c).shutdown();
        return null;
    }

    /** The ids of the queues that the topic's route names. */
    Object queues(JSONObject c) throws Exception {
        return running.get(c).fetchSubscribeMessageQueues(c.getString("topic")).stream()
            .map(MessageQueue::getQueueId).sorted().toList();
    }

    Object pull(JSONObject c) throws Exception {
        MessageQueue q = new MessageQueue(c.getString("topic"), c.getString("broker"), c.getIntValue("queue"));
        PullResult r = running.get(c).pull(q, "*", c.getLongValue("offset"), c.getIntValue("count"));
        List<MessageExt> found = r.getMsgFoundList() == null ? List.of() : r.getMsgFoundList();
        return JSONObject.of("status", r.getPullStatus().name(), "next", r.getNextBeginOffset())
            .fluentPut("messages", found.stream().map(Messages::format).toList());
    }
}
