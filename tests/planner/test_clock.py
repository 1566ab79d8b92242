"""The clock alone: what ends a search, and what a share of it is."""

from encamp.planner.clock import PIECE, UNIT, Cancel, Clock


class TestClock:
    def test_without_limits_never_ends(self):
        """Neither time nor work ends it."""
        clock = Clock()
        clock.pay(10**15)

        assert not clock.is_over()
        assert clock.work_left is None

    def test_ends_when_the_work_is_done(self):
        """At its limit of steps, not before."""
        clock = Clock(work_limit=100)
        clock.pay(99)
        before = clock.is_over()
        clock.pay(1)

        assert (before, clock.is_over(), clock.work_left) == (False, True, 0)

    def test_ends_when_told(self):
        """A token set anywhere ends it."""
        cancel = Cancel()
        clock = Clock(cancel=cancel)
        before = clock.is_over()
        cancel.set()

        assert (before, clock.is_over()) == (False, True)

    def test_keeps_time_free_for_the_landing(self):
        """A search of an hour that needs two to land is over at once."""
        assert not Clock(3600.0).is_over()
        assert Clock(3600.0, landing_s=7200.0).is_over()

    def test_stands_still_once_stopped(self):
        """The seconds of a solve do not grow while others run."""
        clock = Clock(started=0.0, stopped=7.0)

        assert clock.seconds == 7.0


class TestShare:
    def test_of_work_is_work(self):
        """A third of 90 steps; what it spends, the whole has spent."""
        whole = Clock(work_limit=90)
        third = whole.share(1 / 3)
        third.pay(30)

        assert third.is_over()
        assert third.limit_s is None
        assert (whole.work_left, whole.is_over()) == (60, False)

    def test_of_time_is_time(self):
        """Half of an hour."""
        half = Clock(3600.0).share(0.5)

        assert 1700 < half.left <= 1800

    def test_ends_with_the_whole(self):
        """Whatever is left of a share, it is over when the whole is."""
        whole = Clock(work_limit=90)
        share = whole.share(1.0)
        whole.pay(90)

        assert share.is_over()


class TestAtOnce:
    def test_is_what_fits_a_piece(self):
        """Of things of a quarter of a piece four go at once, of small ones the most."""
        clock = Clock()

        assert clock.at_once(PIECE // 4, 16) == 4
        assert clock.at_once(1, 16) == 16

    def test_is_one_at_least(self):
        """A thing larger than a piece is still done."""
        assert Clock().at_once(100 * PIECE, 16) == 1


class TestEnd:
    def test_is_told_by_what_it_was(self):
        """Work, time or a request; none of them is called another."""
        told = Cancel()
        told.set()

        assert Clock(work_limit=5 * UNIT).end == "in 5 units of work"
        assert Clock(60.0, started=0.0, stopped=60.0).end == "in 60 s"
        assert "told to stop" in Clock(cancel=told).end
