"""Whose token is it? Asked by doctor, without starting anything."""

from telegram.error import InvalidToken, TelegramError

from rightlab.errors import ChannelError
from rightlab.telegram.client import Client
from rightlab.telegram.failures import one_line

__all__ = ["bot_username"]


async def bot_username(token: str, api_base: str) -> str:
    """The bot's username. Raises ChannelError: a refused token, a server that is not reached."""
    client = Client(token, api_base)
    await client.open_connections()
    try:
        me = await client.get_me()
    except InvalidToken:
        raise ChannelError(
            "Telegram refuses the bot token",
            fix="Put the right one into secrets.json as telegram_token; @BotFather shows it.",
        ) from None
    except TelegramError as error:
        raise ChannelError(
            f"Telegram is not reached: {one_line(error)}", fix="Check the network and telegram.api_base."
        ) from None
    finally:
        await client.close_connections()
    return me.username or str(me.id)
