import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rightlab.conversation import Attachment, Inbound, ReplyTarget, Sender

senders = st.builds(Sender, st.integers(1, 2**52), st.text(), st.none() | st.text())
attachments = st.lists(
    st.builds(
        Attachment, st.sampled_from(["photo", "document"]), st.none() | st.text(), st.none() | st.text()
    ),
    max_size=2,
).map(tuple)
moments = st.datetimes(timezones=st.just(UTC), min_value=datetime(1000, 1, 1))
inbounds = st.builds(
    Inbound,
    channel=st.just("telegram"),
    update_id=st.none() | st.integers(0, 2**31),
    chat_id=st.integers(-(2**52), 2**52),
    thread_id=st.integers(0, 2**31),
    message_id=st.integers(1, 2**31),
    sent_at=moments,
    chat_kind=st.sampled_from(["dm", "group", "channel"]),
    sender=senders,
    text=st.text(),
    chat_title=st.none() | st.text(),
    attachments=attachments,
    reply_to=st.none()
    | st.builds(
        ReplyTarget,
        st.integers(1, 9),
        st.none() | senders,
        text=st.none() | st.text(),
        attachments=attachments,
    ),
    quoted_text=st.none() | st.text(),
    forward_from=st.none() | senders,
    forward_date=st.none() | moments,
    media_group_id=st.none() | st.text(),
    addressed=st.booleans(),
    edited=st.booleans(),
    inbox_id=st.none() | st.integers(1, 9),
)


@given(inbounds)
def test_a_message_survives_json(message: Inbound) -> None:
    assert Inbound.from_json(json.loads(json.dumps(message.to_json()))) == message
