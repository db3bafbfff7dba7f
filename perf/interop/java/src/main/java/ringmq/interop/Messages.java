package ringmq.interop;

import com.alibaba.fastjson2.JSONObject;
import java.util.Base64;
import java.util.Map;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages as JSON, both ways. Bodies are base64. */
final class Messages {
    private Messages() {
    }

    static Message parse(JSONObject o) {
        Message m = new Message(o.getString("topic"), Base64.getDecoder().decode(o.getString("body")));
        if (o.containsKey("tags")) {
            m.setTags(o.getString("tags"));
        }
        if (o.containsKey("keys")) {
            m.setKeys(o.getList("keys", String.class));
        }
        if (o.containsKey("flag")) {
            m.setFlag(o.getIntValue("flag"));
        }
        if (o.containsKey("delay")) {
            m.setDelayTimeLevel(o.getIntValue("delay"));
        }
        JSONObject props = o.getJSONObject("props");
        if (props != null) {
            for (Map.Entry<String, Object> p : props.entrySet()) {
                m.putUserProperty(p.getKey(), (String) p.getValue());
            }
        }
        return m;
    }

    static JSONObject format(MessageExt m) {
        return JSONObject.of("topic", m.getTopic(), "queue", m.getQueueId(), "offset", m.getQueueOffset())
            .fluentPut("body", Base64.getEncoder().encodeToString(m.getBody()))
            .fluentPut("props", m.getProperties())
            .fluentPut("flag", m.getFlag())
            .fluentPut("msgId", m.getMsgId())
            .fluentPut("reconsumed", m.getReconsumeTimes());
    }
}
