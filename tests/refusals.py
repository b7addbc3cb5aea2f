"""Checks of error messages, for the tests of every layer."""

from typing import Any

import pytest

from viewsmith.core.errors import InputError


def refusal(function: Any, *args: Any, **kwargs: Any) -> str:
    """The message, of one line, of the error that a call raises."""
    with pytest.raises(InputError) as caught:
        function(*args, **kwargs)
    message = str(caught.value)
    assert message and len(message.splitlines()) == 1
    return message
