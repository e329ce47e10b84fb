//! `Scheduler`: polls the tasks of one run, so that the same order of completions gives the same
//! log.
//!
//! A task is one child of a parallel agent, or an agent that needs its own stack. Three rules make
//! the order of events independent of threads, load and stores:
//!
//! 1. A task that can continue without an outside completion (a model, a tool, a timer) continues
//!    before the runner takes the next event. Tasks that continue together go in listed order.
//! 2. Outside completions wait until the run is at rest: no task can continue and no event waits
//!    to be stored. Then they enter one at a time, in their order of arrival.
//! 3. While a task waits for a store, no other task continues, so the speed of a store has no
//!    effect.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    future::poll_fn,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Wake, Waker},
    thread::{self, ThreadId},
};

use futures_util::FutureExt as _;
use tokio::{sync::oneshot, task::unconstrained};
use tracing::Instrument as _;

use crate::error::RunError;

/// The number of events that a run may store before a waiting outside completion enters, so that
/// agents that never rest do not block the others forever.
const EVENTS_BEFORE_ENTRY: usize = 100;

type TaskId = u64;
type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Stands for the runner where a task is expected.
const RUNNER: TaskId = 0;

/// The tasks of one run and the order in which they continue.
#[derive(Default)]
pub(crate) struct Scheduler(Mutex<Tasks>);

#[derive(Default)]
struct Tasks {
    tasks: HashMap<TaskId, Task>,
    last_id: TaskId,
    /// Tasks that can continue, in order.
    ready: VecDeque<TaskId>,
    /// Tasks that the task being polled has woken or started: they continue right after it.
    woken: Vec<TaskId>,
    /// Tasks with an outside completion, in order of arrival.
    completed: VecDeque<TaskId>,
    /// The task being polled, and by which thread: a wake from another thread comes from outside.
    polled: Option<(TaskId, ThreadId)>,
    /// The task that waits for a store, and its number of pending store calls.
    store_wait: Option<(TaskId, usize)>,
    must_yield: bool,
    /// Events that were stored since an outside completion last entered.
    events: usize,
    runner: Option<Waker>,
}

struct Task {
    /// `None` while it is polled.
    future: Option<TaskFuture>,
    waker: Waker,
    queue: Queue,
}

/// The queue that a task is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    None,
    Ready,
    Completed,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Runs a future as a task with its own stack. Dropping the returned future cancels the task.
    /// Outside the scheduler's tasks the future runs in place.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RunError> {
        if self.lock().current().is_none() {
            return Ok(Box::pin(future).await);
        }
        self.start(future).await
    }

    /// Starts the first task of the run, and polls every task that can continue until the first is
    /// done. The caller lets outside completions enter.
    pub(crate) async fn run_first<T: Send + 'static>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RunError> {
        let _tasks = CancelAll(self);
        let mut first = pin!(self.start(future));
        poll_fn(|cx| {
            if let Poll::Ready(done) = first.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            while let Some((id, mut future, waker)) = self.next_ready(cx) {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                drop(self.finish_poll(id, future, polled.is_ready()));
                if let Poll::Ready(done) = first.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
            }
            Poll::Pending
        })
        .await
    }

    async fn start<T: Send + 'static>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RunError> {
        let (done, result) = oneshot::channel();
        let task = async move {
            let ran = AssertUnwindSafe(future).catch_unwind().await;
            // A cancelled task has no receiver.
            let _ = done.send(ran);
        };
        // Tokio's cooperative budget would suspend a task at a place that depends on the load.
        let task = unconstrained(Box::pin(task.in_current_span()));
        let _cancel = Cancel(self, self.lock().add(self, Box::pin(task)));
        match result.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(RunError::Cancelled),
        }
    }

    /// Whether all tasks wait for the runner or for an outside completion.
    pub(crate) fn is_at_rest(&self) -> bool {
        let tasks = self.lock();
        !tasks.must_yield && tasks.store_wait.is_none() && tasks.ready.is_empty()
    }

    /// Lets tasks continue that yielded their thread, now that the runner is polled again.
    pub(crate) fn end_yield(&self) {
        self.lock().must_yield = false;
    }

    /// Lets the oldest outside completion enter. False if there is none.
    pub(crate) fn enter_completion(&self) -> bool {
        let mut tasks = self.lock();
        tasks.events = 0;
        while let Some(id) = tasks.completed.pop_front() {
            if let Some(task) = tasks.tasks.get_mut(&id)
                && task.queue == Queue::Completed
            {
                task.queue = Queue::Ready;
                tasks.ready.push_back(id);
                return true;
            }
        }
        false
    }

    /// Lets an outside completion enter that has waited for too many events.
    pub(crate) fn enter_overdue(&self) -> bool {
        self.lock().events >= EVENTS_BEFORE_ENTRY && self.enter_completion()
    }

    /// Counts an event that the runner takes.
    pub(crate) fn count_event(&self) {
        self.lock().events += 1;
    }

    /// Answers a task on behalf of the runner: the task continues at once, as nothing outside has
    /// completed.
    pub(crate) fn answer(&self, answer: impl FnOnce()) {
        self.lock().polled = Some((RUNNER, thread::current().id()));
        answer();
        self.lock().end_poll();
    }

    /// Waits for a store. No other task of the run continues meanwhile.
    pub(crate) async fn store_call<F: Future>(&self, call: F) -> F::Output {
        let task = self.lock().begin_store_wait();
        let _wait = task.map(|_| StoreWait(self));
        call.await
    }

    /// Lets earlier outside completions enter, in their order.
    pub(crate) async fn after_completions(&self) {
        let must_wait = self.lock().has_earlier_completions();
        // Once: tasks that wait here must not wait for one another.
        if must_wait {
            self.yield_until_rest().await;
        }
    }

    /// Yields the thread, then waits like an outside completion until the run is at rest.
    pub(crate) async fn yield_until_rest(&self) {
        if self.lock().current().is_none() {
            return tokio::task::yield_now().await;
        }
        let mut has_waited = false;
        poll_fn(|_| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            self.lock().queue_current();
            Poll::Pending
        })
        .await;
    }

    /// The next task to poll. None if no task can continue, or if one has yielded the thread.
    fn next_ready(&self, cx: &mut Context<'_>) -> Option<(TaskId, TaskFuture, Waker)> {
        let mut tasks = self.lock();
        if !tasks
            .runner
            .as_ref()
            .is_some_and(|it| it.will_wake(cx.waker()))
        {
            tasks.runner = Some(cx.waker().clone());
        }
        if tasks.must_yield {
            cx.waker().wake_by_ref();
            return None;
        }
        loop {
            let id = match tasks.store_wait {
                None => tasks.ready.pop_front()?,
                Some((waiting, _)) => {
                    let place = tasks.ready.iter().position(|id| *id == waiting)?;
                    tasks.ready.remove(place)?
                }
            };
            if let Some(task) = tasks.tasks.get_mut(&id)
                && let Some(future) = task.future.take()
            {
                task.queue = Queue::None;
                let waker = task.waker.clone();
                tasks.polled = Some((id, thread::current().id()));
                return Some((id, future, waker));
            }
        }
    }

    /// Ends a poll. Returns the future of a task that is done or cancelled, to be dropped unlocked.
    fn finish_poll(&self, id: TaskId, future: TaskFuture, is_done: bool) -> Option<TaskFuture> {
        let mut tasks = self.lock();
        tasks.end_poll();
        match tasks.tasks.get_mut(&id) {
            Some(_) if is_done => drop(tasks.tasks.remove(&id)),
            Some(task) => {
                task.future = Some(future);
                return None;
            }
            None => {}
        }
        Some(future)
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tasks {
    fn add(&mut self, scheduler: &Arc<Scheduler>, future: TaskFuture) -> TaskId {
        self.last_id += 1;
        let id = self.last_id;
        let waker = TaskWaker {
            id,
            scheduler: Arc::downgrade(scheduler),
        };
        let task = Task {
            future: Some(future),
            waker: Arc::new(waker).into(),
            queue: Queue::None,
        };
        self.tasks.insert(id, task);
        self.wake(id);
        id
    }

    /// The task that this thread polls.
    fn current(&self) -> Option<TaskId> {
        let (id, thread) = self.polled?;
        (thread == thread::current().id()).then_some(id)
    }

    /// Whether the current task comes after outside completions that have not entered.
    fn has_earlier_completions(&self) -> bool {
        self.current().is_some() && !self.completed.is_empty()
    }

    /// Queues a task, and returns the runner's waker if the wake comes from outside.
    fn wake(&mut self, id: TaskId) -> Option<Waker> {
        let current = self.current();
        let waits_for_store = self.store_wait.is_some_and(|(waiting, _)| waiting == id);
        let task = self.tasks.get_mut(&id)?;
        match (task.queue, current) {
            (Queue::Ready, _) | (Queue::Completed, None) if !waits_for_store => return None,
            (Queue::Ready, _) => return self.runner.clone(),
            (_, Some(current)) => {
                task.queue = Queue::Ready;
                self.must_yield |= current == id;
                self.woken.push(id);
            }
            (_, None) if waits_for_store => {
                task.queue = Queue::Ready;
                self.ready.push_back(id);
            }
            (_, None) => {
                task.queue = Queue::Completed;
                self.completed.push_back(id);
            }
        }
        match current {
            Some(_) => None,
            None => self.runner.clone(),
        }
    }

    /// Puts woken tasks before all others, in their order.
    fn end_poll(&mut self) {
        self.polled = None;
        for id in std::mem::take(&mut self.woken).into_iter().rev() {
            self.ready.push_front(id);
        }
    }

    /// Queues the current task behind the outside completions.
    fn queue_current(&mut self) {
        let Some(id) = self.current() else { return };
        if let Some(task) = self.tasks.get_mut(&id) {
            task.queue = Queue::Completed;
            self.completed.push_back(id);
            self.must_yield = true;
        }
    }

    fn begin_store_wait(&mut self) -> Option<TaskId> {
        let id = self.current()?;
        let (waiting, count) = self.store_wait.get_or_insert((id, 0));
        (*waiting == id).then(|| {
            *count += 1;
            id
        })
    }

    /// Returns the runner's waker if other tasks may continue.
    fn end_store_wait(&mut self) -> Option<Waker> {
        let (_, count) = self.store_wait.as_mut()?;
        *count -= 1;
        if *count > 0 {
            return None;
        }
        self.store_wait = None;
        match self.current() {
            Some(_) => None,
            None => self.runner.clone(),
        }
    }
}

/// Wakes one task.
struct TaskWaker {
    id: TaskId,
    /// Weak, because a future that a task owns may hold its waker.
    scheduler: Weak<Scheduler>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(scheduler) = self.scheduler.upgrade() else {
            return;
        };
        let runner = scheduler.lock().wake(self.id);
        if let Some(runner) = runner {
            runner.wake();
        }
    }
}

/// Cancels a task when its awaiter is dropped.
struct Cancel<'a>(&'a Scheduler, TaskId);

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        // The guard ends first: dropping an agent may cancel the agents below it.
        let task = self.0.lock().tasks.remove(&self.1);
        drop(task);
    }
}

/// Cancels all tasks, which would otherwise keep their own run alive.
struct CancelAll<'a>(&'a Scheduler);

impl Drop for CancelAll<'_> {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.0.lock());
        drop(tasks);
    }
}

/// A pending store call of a task.
struct StoreWait<'a>(&'a Scheduler);

impl Drop for StoreWait<'_> {
    fn drop(&mut self) {
        let runner = self.0.lock().end_store_wait();
        if let Some(runner) = runner {
            runner.wake();
        }
    }
}
