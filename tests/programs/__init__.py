"""Programs that tests run as processes of their own, to be killed or raced with."""
