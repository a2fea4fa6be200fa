"""The Bot API methods of the stand-in server: arguments checked and refused with the real server's words."""

import time
from collections.abc import Callable
from typing import Any

from rightlab.testing._botapi_state import Chat, State, Trouble, loaded
from rightlab.testing._botapi_text import TextRefused, checked_text, units

__all__ = ["METHODS", "number"]

Params = dict[str, Any]
Method = Callable[[State, Params], Any]

_ACTIONS = {
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
}


def number(params: Params, name: str, default: int | None = None) -> int | None:
    """An integer argument; anything else counts as absent, as on the server."""
    value = params.get(name)
    try:
        return default if value is None or value == "" else int(str(value))
    except ValueError:
        return default


def _flag(params: Params, name: str) -> bool:
    return str(params.get(name, "")).lower() in ("true", "1", "yes")


def _structure(params: Params, name: str) -> Any:
    try:
        return loaded(params.get(name))
    except ValueError:
        raise Trouble(400, f"Bad Request: can't parse {name.replace('_', ' ')} JSON object") from None


def _chat(state: State, params: Params) -> Chat:
    raw = params.get("chat_id")
    if raw in (None, ""):
        raise Trouble(400, "Bad Request: chat_id is empty")
    if isinstance(raw, str) and raw.startswith("@"):
        named = [chat for chat in state.chats.values() if chat.username == raw[1:]]
        chat_id = named[0].id if named else None
    else:
        chat_id = number(params, "chat_id")
    chat = state.chats.get(chat_id) if chat_id is not None else None
    if chat is None:
        raise Trouble(400, "Bad Request: chat not found")
    return chat


def _reachable(state: State, params: Params) -> Chat:
    """The chat, when the bot may write there now and the named topic exists."""
    chat = _chat(state, params)
    wait = chat.flooded_until - time.monotonic()
    if wait > 0:
        seconds = int(wait) + 1
        raise Trouble(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
    if chat.blocked:
        what = "blocked by the user" if chat.type == "private" else f"kicked from the {chat.type} chat"
        raise Trouble(403, f"Forbidden: bot was {what}")
    thread = number(params, "message_thread_id", 0)
    if thread and thread not in chat.topics:
        raise Trouble(400, "Bad Request: message thread not found")
    return chat


def _text(params: Params) -> tuple[str, list[dict[str, Any]]]:
    try:
        return checked_text(params.get("text"), params.get("parse_mode"), _structure(params, "entities"))
    except TextRefused as refused:
        raise Trouble(400, str(refused)) from None


def _markup(params: Params) -> dict[str, Any] | None:
    markup = _structure(params, "reply_markup")
    if markup is None:
        return None
    if not isinstance(markup, dict):
        raise Trouble(400, "Bad Request: object expected as reply markup")
    for row in markup.get("inline_keyboard") or []:
        for button in row:
            if not str(button.get("text", "")).strip():
                raise Trouble(
                    400, "Bad Request: can't parse inline keyboard button: Text buttons are unallowed"
                )
            if len(str(button.get("callback_data", "")).encode()) > 64:
                raise Trouble(400, "Bad Request: BUTTON_DATA_INVALID")
    return markup


def get_me(state: State, params: Params) -> Any:
    return state.me


def get_chat(state: State, params: Params) -> Any:
    chat = _chat(state, params)
    return {**chat.as_json(), "accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": _GIFTS}


_GIFTS = dict.fromkeys(
    ("unlimited_gifts", "limited_gifts", "unique_gifts", "premium_subscription", "gifts_from_channels"), False
)


def send_message(state: State, params: Params) -> Any:
    chat = _reachable(state, params)
    text, entities = _text(params)
    message: dict[str, Any] = {"from": state.me, "text": text}
    if entities:
        message["entities"] = entities
    thread = number(params, "message_thread_id", 0)
    if thread:
        message.update(message_thread_id=thread, is_topic_message=True)
    reply = _structure(params, "reply_parameters") or {}
    target = number(reply, "message_id") or number(params, "reply_to_message_id")
    if target is not None:
        found = chat.messages.get(target)
        if found is not None:
            message["reply_to_message"] = {key: found[key] for key in found if key != "reply_to_message"}
        elif not (
            _flag(reply, "allow_sending_without_reply") or _flag(params, "allow_sending_without_reply")
        ):
            raise Trouble(400, "Bad Request: message to be replied not found")
    markup = _markup(params)
    if markup is not None and "inline_keyboard" in markup:
        message["reply_markup"] = markup
    return state.store_message(chat, message)


def edit_message_text(state: State, params: Params) -> Any:
    chat = _reachable(state, params)
    text, entities = _text(params)
    message = _own(state, chat, params, "edit")
    markup = _markup(params)
    if (message.get("text"), message.get("entities", []), message.get("reply_markup")) == (
        text,
        entities,
        markup,
    ):
        raise Trouble(
            400,
            "Bad Request: message is not modified: specified new message content and reply markup are exactly"
            " the same as a current content and reply markup of the message",
        )
    message.pop("reply_markup", None)
    message.update(text=text, entities=entities, edit_date=int(time.time()))
    if markup is not None:
        message["reply_markup"] = markup
    state.changed.notify_all()
    return message


def _own(state: State, chat: Chat, params: Params, verb: str) -> dict[str, Any]:
    message = chat.messages.get(number(params, "message_id") or 0)
    if message is None:
        raise Trouble(400, f"Bad Request: message to {verb} not found")
    if message.get("from", {}).get("id") != state.me["id"]:
        raise Trouble(400, f"Bad Request: message can't be {verb}ed")
    return message


def delete_message(state: State, params: Params) -> Any:
    chat = _chat(state, params)
    if chat.messages.pop(number(params, "message_id") or 0, None) is None:
        raise Trouble(400, "Bad Request: message to delete not found")
    state.changed.notify_all()
    return True


def send_chat_action(state: State, params: Params) -> Any:
    chat = _reachable(state, params)
    action = params.get("action")
    if action not in _ACTIONS:
        raise Trouble(400, "Bad Request: wrong parameter action in request")
    state.actions.append((chat.id, number(params, "message_thread_id", 0) or 0, str(action)))
    state.changed.notify_all()
    return True


def answer_callback_query(state: State, params: Params) -> Any:
    if str(params.get("callback_query_id")) not in state.callbacks:
        raise Trouble(
            400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
        )
    if units(str(params.get("text") or "")) > 200:
        raise Trouble(400, "Bad Request: MESSAGE_TOO_LONG")
    state.callbacks.discard(str(params["callback_query_id"]))
    return True


def set_my_commands(state: State, params: Params) -> Any:
    commands = _structure(params, "commands")
    if not isinstance(commands, list) or len(commands) > 100:
        raise Trouble(400, "Bad Request: can't parse list of bot commands")
    for command in commands:
        name = str(command.get("command", "")).removeprefix("/")
        if not 1 <= len(name) <= 32 or not all(
            c.isascii() and (c.islower() or c.isdigit() or c == "_") for c in name
        ):
            raise Trouble(400, "Bad Request: BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= 256:
            raise Trouble(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")
    state.commands[str(params.get("scope") or "")] = commands
    return True


def get_file(state: State, params: Params) -> Any:
    file_id = str(params.get("file_id") or "")
    if file_id not in state.files:
        raise Trouble(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
    path, data = state.files[file_id]
    if len(data) > 20 * 1024 * 1024:
        raise Trouble(400, "Bad Request: file is too big")
    return {"file_id": file_id, "file_unique_id": f"u{file_id}", "file_size": len(data), "file_path": path}


def set_webhook(state: State, params: Params) -> Any:
    url = str(params.get("url") or "")
    if url and not url.startswith("https://"):
        raise Trouble(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
    if _flag(params, "drop_pending_updates"):
        state.updates.clear()
    state.webhook = {"url": url, "secret_token": params.get("secret_token")}
    state.changed.notify_all()
    return True


def delete_webhook(state: State, params: Params) -> Any:
    return set_webhook(state, {**params, "url": ""})


def get_webhook_info(state: State, params: Params) -> Any:
    return {
        "url": state.webhook["url"],
        "has_custom_certificate": False,
        "pending_update_count": len(state.updates),
    }


METHODS: dict[str, Method] = {
    "getme": get_me,
    "getchat": get_chat,
    "sendmessage": send_message,
    "editmessagetext": edit_message_text,
    "deletemessage": delete_message,
    "sendchataction": send_chat_action,
    "answercallbackquery": answer_callback_query,
    "setmycommands": set_my_commands,
    "getfile": get_file,
    "setwebhook": set_webhook,
    "deletewebhook": delete_webhook,
    "getwebhookinfo": get_webhook_info,
}
