//! Everything at once in any order, against a model that knows who waits and who is inside.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tower::ServiceBuilder;
use tower_spatial::{
    BreakerSettings, BreakerState, CircuitBreakerLayer, ConcurrencyLimitLayer, CooldownLayer,
    EndpointSettings, Endpoints, OnOpen,
};

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Arrive,
    Poll(prop::sample::Index),
    Drop(prop::sample::Index),
    /// The host answers one of those inside.
    Answer(prop::sample::Index, What),
    ReadBody(prop::sample::Index),
    DropBody(prop::sample::Index),
    Sleep(u64),
    Open,
    Close,
    Reset,
}

fn event() -> impl Strategy<Value = Event> {
    let index = any::<prop::sample::Index>;
    let what = prop_oneof![
        4 => Just(What::Answers(200, vec![], vec![Step::data("a"), Step::data("b")])),
        1 => Just(What::Answers(200, vec![], vec![Step::data("a"), Step::Fail])),
        1 => Just(What::Answers(503, vec![("retry-after", "20")], vec![])),
        1 => Just(What::Answers(500, vec![], vec![Step::data("a")])),
        3 => Just(What::Answers(502, vec![], vec![])),
        5 => Just(What::Refuses),
    ];
    prop_oneof![
        6 => Just(Event::Arrive),
        8 => index().prop_map(Event::Poll),
        1 => index().prop_map(Event::Drop),
        8 => (index(), what).prop_map(|(index, what)| Event::Answer(index, what)),
        3 => index().prop_map(Event::ReadBody),
        2 => index().prop_map(Event::DropBody),
        3 => (1..20_000u64).prop_map(Event::Sleep),
        1 => Just(Event::Open),
        2 => Just(Event::Close),
        1 => Just(Event::Reset),
    ]
}

/// A host that answers when it is told to.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    next: usize,
    inside: BTreeMap<usize, tokio::sync::oneshot::Sender<What>>,
}

impl Service<Request<NoBody>> for Told {
    type Response = Response<Scripted>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Scripted>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<NoBody>) -> Self::Future {
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut inner = self.0.lock().unwrap();
        let number = inner.next;
        inner.next += 1;
        inner.inside.insert(number, tell);
        drop(inner);
        Box::pin(async move {
            match told.await? {
                What::Answers(status, headers, steps) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    Ok(response.body(Scripted::new(steps))?)
                }
                _ => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
            }
        })
    }
}

impl Told {
    /// Those that somebody still waits for.
    fn inside(&self) -> Vec<usize> {
        let mut inner = self.0.lock().unwrap();
        inner.inside.retain(|_, tell| !tell.is_closed());
        inner.inside.keys().copied().collect()
    }

    fn tell(&self, number: usize, what: What) {
        if let Some(tell) = self.0.lock().unwrap().inside.remove(&number) {
            let _ = tell.send(what);
        }
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().next
    }
}

type Call = Task<Pin<Box<dyn Future<Output = Result<Response<AnyBody>, BoxError>>>>>;

struct Machine {
    endpoints: Endpoints,
    client: Client,
    host: Told,
    calls: Vec<Call>,
    bodies: Vec<AnyBody>,
    limit: usize,
}

impl Machine {
    fn new(limit: usize) -> Self {
        let settings = EndpointSettings::new()
            .concurrency(limit)
            .queue_timeout(1_000 * HOUR)
            // Bodies are never taken for unread ones here.
            .reader_patience(1_000 * HOUR)
            .breaker(BreakerSettings {
                row: 3,
                ..BreakerSettings::default()
            });
        let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
        let host = Told::default();
        let client = ServiceBuilder::new()
            .layer(CircuitBreakerLayer::new(endpoints.clone()).on_open(OnOpen::Wait))
            .layer(CooldownLayer::new(endpoints.clone()))
            .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
            .service(host.clone());
        Self {
            client: boxed(client),
            endpoints,
            host,
            calls: Vec::new(),
            bodies: Vec::new(),
            limit,
        }
    }

    fn poll(&mut self, nth: usize) {
        if let Poll::Ready(done) = self.calls[nth].poll() {
            drop(self.calls.remove(nth));
            self.bodies.extend(done.map(Response::into_body));
        }
    }

    /// Polls whoever was woken, until nobody is.
    fn settle(&mut self) {
        loop {
            let woken = self.calls.iter_mut().position(|call| call.was_woken());
            let Some(nth) = woken else { return };
            self.poll(nth);
        }
    }

    fn order(&self, act: impl Fn(&tower_spatial::Endpoint)) {
        act(&self
            .endpoints
            .find(&"http://tiles.example/".parse().unwrap()));
    }

    async fn step(&mut self, event: Event) {
        let before = (self.host.asked(), at(&self.endpoints).breaker);
        match event {
            Event::Arrive => {
                let mut client = self.client.clone();
                let call = async move { client.call(get("/")).await };
                self.calls.push(Task::new(Box::pin(call)));
            }
            Event::Poll(index) if !self.calls.is_empty() => {
                self.poll(index.index(self.calls.len()));
            }
            Event::Drop(index) if !self.calls.is_empty() => {
                drop(self.calls.swap_remove(index.index(self.calls.len())));
            }
            Event::Answer(index, what) => {
                let inside = self.host.inside();
                if !inside.is_empty() {
                    self.host.tell(*index.get(&inside), what);
                }
            }
            Event::ReadBody(index) if !self.bodies.is_empty() => {
                let nth = index.index(self.bodies.len());
                let mut cx = Context::from_waker(Waker::noop());
                let read = Pin::new(&mut self.bodies[nth]).poll_frame(&mut cx);
                if !matches!(read, Poll::Ready(Some(Ok(_)))) {
                    drop(self.bodies.remove(nth));
                }
            }
            Event::DropBody(index) if !self.bodies.is_empty() => {
                drop(self.bodies.remove(index.index(self.bodies.len())));
            }
            Event::Sleep(ms) => sleep(Duration::from_millis(ms)).await,
            Event::Open => self.order(tower_spatial::Endpoint::open),
            Event::Close => self.order(tower_spatial::Endpoint::close),
            Event::Reset => self.order(tower_spatial::Endpoint::reset),
            _ => {}
        }
        let now = at(&self.endpoints);
        assert!(now.in_flight <= self.limit, "{now:?}");
        assert!(
            self.host.inside().len() <= now.in_flight,
            "inside without a permit: {now:?}"
        );
        if !matches!(before.1, BreakerState::Closed) && !matches!(now.breaker, BreakerState::Closed)
        {
            assert!(
                self.host.asked() <= before.0 + 1,
                "more than a probe: {now:?}"
            );
        }
    }

    /// Nobody who may go still waits, and every permit comes back.
    async fn end(mut self) {
        self.order(tower_spatial::Endpoint::close);
        let good = What::Answers(200, vec![], vec![]);
        for _ in 0..self.calls.len() * 3 + 10 {
            // All that are there are woken, or were polled by somebody: nobody else polls them.
            for nth in (0..self.calls.len()).rev() {
                if self.calls[nth].is_new() {
                    self.poll(nth);
                }
            }
            self.settle();
            self.bodies.clear();
            for number in self.host.inside() {
                self.host.tell(number, good.clone());
            }
            self.settle();
            sleep(20 * SECOND).await;
            self.settle();
        }
        assert_eq!(
            self.calls.len(),
            0,
            "somebody still waits: {:?}",
            at(&self.endpoints)
        );
        self.bodies.clear();
        assert_quiet(&self.endpoints);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_events_breaks_a_law(limit in 1..5usize, events in prop::collection::vec(event(), 1..150)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut machine = Machine::new(limit);
            for event in events {
                machine.step(event).await;
            }
            machine.end().await;
        });
    }
}
