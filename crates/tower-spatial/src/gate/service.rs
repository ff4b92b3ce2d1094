use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Method, Request};
use load_control::{Reason, Wait};
use tokio::time::{Duration, Instant};
use tower::BoxError;
use tower_service::Service;

use super::future::{Admission, Held, Lent, ResponseFuture, State, admit, circuit_open};
use super::{OnOpen, PermitScope, UnknownHost};
use crate::call::{self, Deadline, Endpoint, Endpoints, Part, Permit};

/// Admits calls through the gates of their host. The layers of breaker, cooldown and limit are this, each with options
/// of its own.
#[derive(Clone, Debug)]
pub(crate) struct Gate<S> {
    inner: S,
    options: Arc<Options>,
}

/// What layer and service share.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) endpoints: Endpoints,
    pub(crate) queue_timeout: Option<Duration>,
    pub(crate) reader_patience: Option<Duration>,
    pub(crate) permit_scope: PermitScope,
    pub(crate) on_open: OnOpen,
}

impl Options {
    pub(crate) fn new(endpoints: Endpoints) -> Self {
        Self {
            endpoints,
            queue_timeout: None,
            reader_patience: None,
            permit_scope: PermitScope::default(),
            on_open: OnOpen::Wait,
        }
    }

    #[inline]
    pub(super) fn is_until_body_ends<B>(&self, request: &Request<B>) -> bool {
        // An answer to HEAD has no body, whatever its Content-Length says.
        self.permit_scope == PermitScope::Body && request.method() != Method::HEAD
    }
}

impl<S> Gate<S> {
    pub(crate) fn new(inner: S, options: Arc<Options>) -> Self {
        Self { inner, options }
    }

    #[inline(always)]
    pub(crate) fn call<B>(&mut self, mut request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
        S::Error: Into<BoxError>,
    {
        let endpoints = &self.options.endpoints;
        let (uri, extensions) = (request.uri(), request.extensions());
        let carried = Deadline::carried(extensions);
        let found = endpoints.find_at_once(uri, carried);
        let admits = |endpoint| carried.is_some_and(|carried| carried.is_admitted_by(endpoint));
        let mut admitted = None;
        // Before a reference is counted: of the gates of a stack most have nothing else to do than to see this.
        if !found.is_some_and(admits) {
            let endpoint = match found {
                Some(endpoint) => Arc::clone(endpoint),
                None => endpoints.find_otherwise(uri, extensions),
            };
            if endpoint.parts().refuses() {
                return ResponseFuture::refused(UnknownHost::of(uri).into());
            }
            if found.is_some() || !admits(&endpoint) {
                if is_retry(carried) {
                    return self.queue(endpoint, request);
                }
                let now = match carried {
                    Some(_) => Instant::now(),
                    None => endpoint.now(),
                };
                let permit = match Permit::try_acquire(endpoint, now) {
                    Ok(permit) => permit,
                    Err((endpoint, wait)) => return self.wait(endpoint, wait, request),
                };
                if let Some(carried) = carried
                    && let Err(late) = admit(carried, permit.endpoint(), now, None)
                {
                    return ResponseFuture::refused(late.into());
                }
                admitted = Some((permit, now));
            }
        }
        let until_body_ends = self.options.is_until_body_ends(&request);
        // Most services are ready at once. One that is not is asked again in the future, by its task.
        match self
            .inner
            .poll_ready(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return ResponseFuture::refused(error.into()),
            Poll::Pending => {
                let permit = admitted.map(|(permit, _)| permit);
                return self.wait_until_ready(permit, request);
            }
        }
        let held = match admitted {
            Some((permit, now)) => Held::by_call(permit, &mut request, now),
            None => Held::Nothing,
        };
        // Written out: the future below is large, and each function that it went through would move it.
        ResponseFuture {
            state: State::Called {
                call: self.inner.call(request),
                held,
                until_body_ends,
            },
        }
    }

    #[cold]
    fn wait<B>(
        &mut self,
        endpoint: Arc<Endpoint>,
        wait: Wait,
        request: Request<B>,
    ) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        match wait.reason {
            Reason::Open | Reason::Held | Reason::Probing
                if self.options.on_open == OnOpen::Fail =>
            {
                let until = wait.until.map(Instant::from_std);
                ResponseFuture::refused(circuit_open(&endpoint, wait.reason, until))
            }
            _ => self.queue(endpoint, request),
        }
    }

    #[cold]
    fn queue<B>(&mut self, endpoint: Arc<Endpoint>, request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        let admission = Admission::queue(endpoint, self.inner.clone(), request, &self.options);
        ResponseFuture::admission(admission)
    }

    /// The service that was asked goes with the request, so that its readiness is this call's; a clone stays.
    #[cold]
    fn wait_until_ready<B>(
        &mut self,
        permit: Option<Permit>,
        request: Request<B>,
    ) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        let fresh = self.inner.clone();
        let asked = mem::replace(&mut self.inner, fresh);
        let endpoint = match &permit {
            Some(permit) => Arc::clone(permit.endpoint()),
            None => {
                let endpoints = &self.options.endpoints;
                endpoints.find_for(request.uri(), request.extensions())
            }
        };
        let admission = Admission::ready(endpoint, permit, asked, request, &self.options);
        ResponseFuture::admission(admission)
    }
}

#[inline]
fn is_retry(carried: Option<&Deadline>) -> bool {
    carried
        .and_then(Deadline::context)
        .is_some_and(|context| context.failures() > 0)
}

impl Held {
    /// The call goes out with `permit`. Layers further inside are told, where there are some that look.
    #[inline(always)]
    pub(super) fn by_call<B>(mut permit: Permit, request: &mut Request<B>, now: Instant) -> Self {
        let endpoint = permit.endpoint();
        let parts = endpoint.parts();
        if parts.is_shared() {
            call::mark_admitted(request.extensions_mut(), endpoint);
        }
        permit.begin(now);
        if parts.has(Part::Rate) {
            let context = call::Context::of_or_insert(request.extensions_mut());
            *context.permit() = Some(permit);
            return Self::Lent(Lent {
                context,
                admitted_at: now,
            });
        }
        Self::Permit(permit)
    }
}
