"""How bad input has to be answered, for the tests of every layer."""

from typing import Any

import pytest

from viewsmith.core.errors import InputError


def refusal(function: Any, *args: Any, **kwargs: Any) -> str:
    """The one line that a call is refused with."""
    with pytest.raises(InputError) as caught:
        function(*args, **kwargs)
    message = str(caught.value)
    assert message and len(message.splitlines()) == 1
    return message
