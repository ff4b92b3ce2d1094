use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use load_control::Reason;
use tokio::time::{Duration, Instant};

use crate::call::{self, Endpoint, Queued, Waiting};

/// What became of the permit with which a call came from a limit further outside.
#[derive(Debug, Default)]
pub(super) enum Lent {
    /// The call has it, or there is none.
    #[default]
    Kept,
    /// Somebody else may have it while the call waits.
    Away(Arc<Endpoint>),
    /// The call asks for one again.
    Asking {
        queued: Queued,
        ask_at: Option<Instant>,
        next_sweep: Instant,
    },
}

impl Lent {
    /// A call that waits for long gives its permit back.
    pub(super) fn give_back_until<B>(&mut self, request: &Request<B>, at: Instant, now: Instant) {
        if at.saturating_duration_since(now) <= LONGEST_HELD {
            return;
        }
        let permit =
            call::Context::of(request.extensions()).and_then(|context| context.permit().take());
        if let Some(permit) = permit {
            *self = Self::Away(Arc::clone(permit.endpoint()));
        }
    }

    /// Until the call has a permit again, in front of those who have not waited yet.
    pub(super) fn poll_again<B>(
        &mut self,
        request: &Request<B>,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let permit = match self {
            Self::Kept => return Poll::Ready(()),
            Self::Away(endpoint) => {
                let waiting = Waiting {
                    goes_in_front: true,
                    leaves_when_open: false,
                };
                match Queued::enter(Arc::clone(endpoint), waiting, now, cx.waker()) {
                    Ok(queued) => {
                        *self = Self::Asking {
                            queued,
                            ask_at: None,
                            next_sweep: now,
                        };
                        return self.poll_again(request, now, cx);
                    }
                    Err(permit) => permit,
                }
            }
            Self::Asking {
                queued,
                ask_at,
                next_sweep,
            } => {
                if *next_sweep <= now {
                    queued.sweep(now, QUARTER);
                    *next_sweep = now + QUARTER;
                }
                match queued.poll(now, cx.waker()) {
                    Some(Ok(permit)) => permit,
                    Some(Err(waits)) => {
                        if waits.reason != Reason::Limit
                            && let Some(context) = call::Context::of(request.extensions())
                        {
                            context.meet_closed(now, queued.endpoint());
                        }
                        *ask_at = waits.ask_at;
                        return Poll::Pending;
                    }
                    None => return Poll::Pending,
                }
            }
        };
        *self = Self::Kept;
        if let Some(context) = call::Context::of(request.extensions()) {
            *context.permit() = Some(permit);
        }
        Poll::Ready(())
    }

    /// When to ask again at the latest.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        match self {
            Self::Asking {
                ask_at, next_sweep, ..
            } => Some(ask_at.map_or(*next_sweep, |at| at.min(*next_sweep))),
            _ => None,
        }
    }
}

/// How far away a slot may be for a permit to be held.
const LONGEST_HELD: Duration = Duration::from_secs(1);
/// Of the default of the reader's patience.
const QUARTER: Duration = Duration::from_millis(7_500);
