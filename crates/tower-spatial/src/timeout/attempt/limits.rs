use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Extensions;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{AttemptTimedOut, TimeoutKind};
use crate::call;

/// The limits of attempts; `None` is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) head: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) whole: Option<Duration>,
}

impl Limits {
    /// With what the endpoint of a request says instead.
    pub(super) fn of(self, extensions: &Extensions) -> Self {
        match call::Context::settings_of(extensions) {
            None => self,
            Some(settings) => Self {
                head: settings.timeouts.head.unwrap_or(self.head),
                idle: settings.timeouts.idle.unwrap_or(self.idle),
                whole: settings.timeouts.whole.unwrap_or(self.whole),
            },
        }
    }

    pub(super) fn times(self, factor: u32) -> Self {
        let times = |limit: Option<Duration>| limit.map(|limit| limit.saturating_mul(factor));
        Self {
            head: times(self.head),
            idle: times(self.idle),
            whole: times(self.whole),
        }
    }

    /// No attempt that was shorter was cut off by one of these.
    pub(super) fn shortest(&self) -> Duration {
        let limits = [self.head, self.idle, self.whole];
        limits.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }
}

/// The limits of one attempt, and its one timer.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) limits: Limits,
    pub(super) deadline: Option<Instant>,
    /// When the attempt was first waited for: a service that answers at once costs no look at the clock.
    began: Option<Instant>,
    /// Boxed, and only where something is waited for: a timer is larger than all the rest. It goes from the future to
    /// the body.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    pub(super) fn new(limits: Limits, deadline: Option<Instant>) -> Self {
        Self {
            limits,
            deadline,
            began: None,
            timer: None,
        }
    }

    /// When the attempt was first waited for.
    pub(super) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// As [`began`](Self::began); it is now where it has not been waited for before.
    pub(super) fn begin(&mut self) -> Instant {
        *self.began.get_or_insert_with(Instant::now)
    }

    /// Whether what is waited for since `since` has not come in time; `since` is now where it is `None`.
    ///
    /// The timer is not moved for each thing that comes: it is left to fire at the end of an earlier wait, and set anew
    /// only then.
    pub(super) fn poll(
        &mut self,
        kind: TimeoutKind,
        since: &mut Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<AttemptTimedOut> {
        let limit = match kind {
            TimeoutKind::Head => self.limits.head,
            _ => self.limits.idle,
        };
        if limit.is_none() && self.limits.whole.is_none() && self.deadline.is_none() {
            return Poll::Pending;
        }
        let since = *since.get_or_insert_with(Instant::now);
        let began = *self.began.get_or_insert(since);
        let after = |from: Instant, limit: Option<Duration>| from.checked_add(limit?);
        let ends = [
            (after(since, limit), kind),
            (after(began, self.limits.whole), TimeoutKind::Whole),
            (self.deadline, TimeoutKind::Deadline),
        ];
        let first = ends
            .into_iter()
            .filter_map(|(at, kind)| Some((at?, kind)))
            .min_by_key(|(at, _)| *at);
        let Some((at, kind)) = first else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() > at {
            timer.as_mut().reset(at);
        }
        ready!(timer.as_mut().poll(cx));
        if timer.deadline() < at {
            timer.as_mut().reset(at);
            ready!(timer.as_mut().poll(cx));
        }
        let limit = match kind {
            TimeoutKind::Head | TimeoutKind::Idle => limit.unwrap_or_default(),
            TimeoutKind::Whole => self.limits.whole.unwrap_or_default(),
            TimeoutKind::Deadline => at.duration_since(began),
        };
        Poll::Ready(AttemptTimedOut { kind, limit })
    }
}
