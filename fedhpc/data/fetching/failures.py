"""What keeps data from being fetched, in sentences."""


class FetchFailed(Exception):
    """Something that was to be fetched is not there. The message says what happened, and what to do."""


class Refused(FetchFailed):
    """An address does not give the file, and will not if it is asked again."""


class Broken(FetchFailed):
    """A transfer broke off. It may be tried again, and goes on from where it was."""


class BadArchive(FetchFailed):
    """An archive is damaged, or holds what it must not."""


class Changed(FetchFailed):
    """A file, or what is remembered of it, is no longer what it was when it was fetched."""
