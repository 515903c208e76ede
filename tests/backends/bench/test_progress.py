import io

from backends.bench.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(total: int, done: float, text: str = "") -> str:
    stream = Terminal()
    Progress(total, stream).show(done, text)
    return stream.getvalue().removeprefix("\r\x1b[K")


def test_a_bar_fills_with_what_is_done():
    assert shown(4, 0, "compiling") == "[........................] 0/4 compiling"
    assert shown(4, 2.5) == "[###############.........] 2/4 "
    assert shown(4, 4) == "[########################] 4/4 "


def test_a_bar_never_runs_over_its_end():
    assert shown(2, 9).count("#") == 24
    assert shown(0, 0).startswith("[")


def test_a_bar_fits_a_line_and_is_taken_away():
    stream = Terminal()
    progress = Progress(3, stream)
    progress.show(1, "x" * 500)
    assert len(stream.getvalue()) < 100
    progress.clear()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_nothing_is_written_where_there_is_no_terminal():
    stream = io.StringIO()
    progress = Progress(3, stream)
    progress.show(1, "compiling")
    progress.clear()
    assert stream.getvalue() == ""
