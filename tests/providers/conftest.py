"""What tests of providers share: asserts of the contract say what they compared."""

import pytest

pytest.register_assert_rewrite("interpose.testing.model_contract")
