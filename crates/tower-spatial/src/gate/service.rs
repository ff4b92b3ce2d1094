use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Method, Request};
use load_control::{Reason, Wait};
use tokio::time::{Duration, Instant};
use tower::BoxError;
use tower_service::Service;

use super::future::{Admission, Called, ResponseFuture, State, admit, circuit_open};
use super::{OnOpen, PermitScope, UnknownHost};
use crate::call::{self, Endpoint, Endpoints, Part, Permit, is_admitted};

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
        let options = &*self.options;
        let endpoint = options
            .endpoints
            .find_for(request.uri(), request.extensions());
        let parts = endpoint.parts();
        if parts.is_special() {
            if parts.refuses() {
                return ResponseFuture::refused(UnknownHost::of(request.uri()).into());
            }
            if is_admitted(request.extensions(), &endpoint) {
                return self.pass(endpoint, request);
            }
        }
        if is_retry(&request) {
            return self.queue(endpoint, request);
        }
        let mut permit = match Permit::try_acquire(endpoint) {
            Ok(permit) => permit,
            Err((endpoint, wait)) => return self.wait(endpoint, wait, request),
        };
        let until_body_ends = self.until_body_ends(&request);
        if let Err(late) = admit(request.extensions(), permit.endpoint(), None) {
            return ResponseFuture::refused(late.into());
        }
        // Most services are ready at once. One that is not is asked again in the future, by its task.
        match self
            .inner
            .poll_ready(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return ResponseFuture::refused(error.into()),
            Poll::Pending => return self.wait_until_ready(permit, request),
        }
        let called = Called::begin(&mut permit, &mut request);
        // Written out: the future below is large, and each function that it went through would move it.
        ResponseFuture {
            state: State::Called {
                permit: called.keep(permit),
                call: self.inner.call(request),
                called,
            },
            until_body_ends,
        }
    }

    /// Another layer has admitted it.
    #[cold]
    fn pass<B>(&mut self, endpoint: Arc<Endpoint>, request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
        S::Error: Into<BoxError>,
    {
        match self
            .inner
            .poll_ready(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(())) => ResponseFuture {
                state: State::Called {
                    permit: None,
                    call: self.inner.call(request),
                    called: Called::default(),
                },
                until_body_ends: false,
            },
            Poll::Ready(Err(error)) => ResponseFuture::refused(error.into()),
            Poll::Pending => {
                let fresh = self.inner.clone();
                let asked = mem::replace(&mut self.inner, fresh);
                let admission = Admission::ready(endpoint, None, asked, request, &self.options);
                ResponseFuture::admission(admission, false)
            }
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
        let until_body_ends = self.until_body_ends(&request);
        let admission = Admission::queue(endpoint, self.inner.clone(), request, &self.options);
        ResponseFuture::admission(admission, until_body_ends)
    }

    /// The service that was asked goes with the request, so that its readiness is this call's; a clone stays.
    #[cold]
    fn wait_until_ready<B>(&mut self, permit: Permit, request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        let until_body_ends = self.until_body_ends(&request);
        let fresh = self.inner.clone();
        let asked = mem::replace(&mut self.inner, fresh);
        let endpoint = Arc::clone(permit.endpoint());
        let admission = Admission::ready(endpoint, Some(permit), asked, request, &self.options);
        ResponseFuture::admission(admission, until_body_ends)
    }

    fn until_body_ends<B>(&self, request: &Request<B>) -> bool {
        // An answer to HEAD has no body, whatever its Content-Length says.
        self.options.permit_scope == PermitScope::Body && request.method() != Method::HEAD
    }
}

#[inline]
fn is_retry<B>(request: &Request<B>) -> bool {
    call::Context::of(request.extensions()).is_some_and(|context| context.failures() > 0)
}

impl Called {
    /// The call goes out with `permit`. Layers further inside are told, where there are some that look.
    #[inline]
    pub(super) fn begin<B>(permit: &mut Permit, request: &mut Request<B>) -> Self {
        permit.begin();
        let endpoint = permit.endpoint();
        if endpoint.parts().is_shared() {
            call::mark_admitted(request.extensions_mut(), endpoint);
        }
        if endpoint.parts().has(Part::Rate) {
            let context = call::Context::of_or_insert(request.extensions_mut());
            return Self {
                lent_to: Some(context),
            };
        }
        Self::default()
    }

    /// The permit, or none where it was lent.
    #[inline]
    pub(super) fn keep(&self, permit: Permit) -> Option<Permit> {
        match &self.lent_to {
            None => Some(permit),
            Some(context) => {
                *context.permit() = Some(permit);
                None
            }
        }
    }
}
