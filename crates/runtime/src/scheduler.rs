//! `Scheduler`: polls the tasks of one run, so that the same order of completions gives the same
//! log.
//!
//! A task is one child of a parallel agent, or an agent that needs its own stack. The concurrent
//! tool calls of an agent are subtasks of its task. Four rules make the order of events independent
//! of threads, load and stores:
//!
//! 1. A task that can continue without an outside completion (a model, a tool, a timer) continues
//!    before the runner takes the next event. Several such tasks continue in the order in which
//!    they were started or woken.
//! 2. Outside completions wait until the run is at rest: no task can continue and no event waits
//!    to be stored. Then they enter one at a time, in their order of arrival.
//! 3. While a task waits for a store, no other task continues, so the speed of a store has no
//!    effect.
//! 4. An agent that never waits must not block the others forever. After [`STEPS_BEFORE_ENTRY`]
//!    steps without a completion, the run therefore waits for one, if a model or tool call is open.
//!
//! A nested run has its own scheduler, which runs inside a task of the outermost one.

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

/// The number of steps without an outside completion after which the next one must enter. A step is
/// an event, or an iteration of a loop that has emitted none.
const STEPS_BEFORE_ENTRY: usize = 1_000;

type TaskId = u64;
type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The id of the runner, which is not a task.
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
    /// Tasks that have yielded: they continue before a completion enters, but after events that
    /// wait to be stored.
    yielded: VecDeque<TaskId>,
    /// The number of completions that may still enter in this poll; `None` for all.
    entries_left: Option<usize>,
    /// The poll of the outermost scheduler that set `entries_left`.
    host_poll: Option<u64>,
    /// The number of task polls so far.
    polls: u64,
    /// The task being polled, and the thread that polls it. A wake from another thread comes from
    /// outside.
    polled: Option<(TaskId, ThreadId)>,
    /// The task that waits for a store, and its number of pending store calls.
    store_wait: Option<(TaskId, usize)>,
    /// Whether a task has yielded the thread. Then no task is polled before the next poll of the
    /// runner.
    must_yield: bool,
    /// The number of pending model and tool calls.
    open_calls: usize,
    /// The number of steps since an outside completion last entered or a call last ended.
    steps: usize,
    runner: Option<Waker>,
}

struct Task {
    /// The task's future; `None` during a poll, and for a subtask.
    future: Option<TaskFuture>,
    waker: Waker,
    queue: Queue,
    /// The task that polls this subtask.
    owner: Option<TaskId>,
    /// Whether the owner may poll this subtask now.
    may_continue: bool,
}

/// The queue that a task is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    None,
    Ready,
    Completed,
    Yielded,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Runs a future as a task with its own stack. Dropping the returned future cancels the task.
    /// Outside a scheduler's tasks, the future runs in place.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RunError> {
        if self.lock().current().is_none() {
            return Ok(Box::pin(future).await);
        }
        self.start(future).await
    }

    /// Starts the first task of the run, and polls every task that can continue, until the first is
    /// done. The caller decides when outside completions enter.
    pub(crate) async fn run_first<T: Send + 'static>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RunError> {
        let _tasks = CancelAllGuard(self);
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
            let outcome = AssertUnwindSafe(future).catch_unwind().await;
            // A cancelled task has no receiver.
            let _ = done.send(outcome);
        };
        // Tokio's cooperative budget would suspend a task at a point that depends on the load.
        let task = unconstrained(Box::pin(task.in_current_span()));
        let id = self.lock().add(self, Some(Box::pin(task)), None);
        let _cancel = CancelGuard(self, id);
        match result.await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => Err(RunError::Cancelled),
        }
    }

    /// Runs futures as subtasks until all are done or `is_last` accepts the output of one; then the
    /// others get one chance to finish without an outside completion. Returns the outputs in the
    /// order of the futures, and the index of the accepted one.
    pub(crate) async fn join<F: Future>(
        self: &Arc<Self>,
        futures: impl IntoIterator<Item = F>,
        is_last: impl Fn(&F::Output) -> bool,
    ) -> (Vec<Option<F::Output>>, Option<usize>) {
        let futures = futures.into_iter();
        let mut subtasks: Vec<_> = futures.map(|future| Subtask::new(self, future)).collect();
        let last = poll_fn(|cx| {
            for (number, subtask) in subtasks.iter_mut().enumerate() {
                if subtask.poll(self, cx).is_some_and(&is_last) {
                    return Poll::Ready(Some(number));
                }
            }
            match subtasks.iter().all(|subtask| subtask.output.is_some()) {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        });
        let last = last.await;
        if last.is_some() {
            poll_fn(|cx| {
                for subtask in &mut subtasks {
                    subtask.continue_if_ready(self);
                    subtask.poll(self, cx);
                }
                Poll::Ready(())
            })
            .await;
        }
        let outputs = subtasks.into_iter().map(|subtask| subtask.output);
        (outputs.collect(), last)
    }

    /// Whether all tasks wait for the runner or for an outside completion.
    pub(crate) fn is_at_rest(&self) -> bool {
        let tasks = self.lock();
        !tasks.must_yield && tasks.store_wait.is_none() && tasks.ready.is_empty()
    }

    /// Begins a poll of the runner: tasks that yielded their thread may continue. In a nested run,
    /// a completion that arrives during a poll of `host` waits for the next poll, because another
    /// task of `host` may have completed earlier.
    pub(crate) fn begin_poll(&self, host: Option<&Scheduler>) {
        let host_poll = host.and_then(|host| host.lock().current_poll());
        let mut tasks = self.lock();
        tasks.must_yield = false;
        if tasks.host_poll != host_poll {
            tasks.host_poll = host_poll;
            tasks.entries_left = host_poll.map(|_| tasks.completed.len());
        }
    }

    /// Lets one task continue that has yielded or whose outside completion waits. Returns false if
    /// there is none.
    pub(crate) fn continue_next(&self) -> bool {
        let mut tasks = self.lock();
        tasks.continue_yielded() || tasks.enter_completion()
    }

    /// Whether an outside completion must enter before the runner takes the next event. While a call
    /// is open, this does not depend on what has completed already, and so not on the load.
    pub(crate) fn must_enter(&self) -> bool {
        self.lock().must_enter()
    }

    /// Counts an event that the runner takes.
    pub(crate) fn count_event(&self) {
        self.lock().steps += 1;
    }

    /// Waits for a model or a tool.
    pub(crate) async fn outside_call<F: Future>(&self, call: F) -> F::Output {
        self.lock().open_calls += 1;
        let _call = OpenCall(self);
        call.await
    }

    /// Calls `answer`, which wakes a task on behalf of the runner. The task continues immediately,
    /// because the runner's answer is not an outside completion.
    pub(crate) fn answer(&self, answer: impl FnOnce()) {
        self.lock().polled = Some((RUNNER, thread::current().id()));
        answer();
        self.lock().end_poll();
    }

    /// Waits for a call to a store. No other task of the run continues meanwhile.
    pub(crate) async fn store_call<F: Future>(&self, call: F) -> F::Output {
        let task = self.lock().begin_store_wait();
        let _wait = task.map(|_| StoreWait(self));
        call.await
    }

    /// Lets outside completions that arrived earlier enter first, in their order.
    pub(crate) async fn after_completions(&self) {
        let must_wait = self.lock().has_earlier_completions();
        // Wait only once, because tasks that wait here must not wait for one another.
        if must_wait {
            self.wait_in(Queue::Completed).await;
        }
    }

    /// Yields the thread. The task continues when no other task can and all events are stored.
    pub(crate) async fn yield_now(&self) {
        if self.lock().current().is_none() {
            return tokio::task::yield_now().await;
        }
        self.wait_in(Queue::Yielded).await;
    }

    /// Puts the current task into a queue and waits until its turn comes.
    async fn wait_in(&self, queue: Queue) {
        let mut has_waited = false;
        poll_fn(|_| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            self.lock().queue_current(queue);
            Poll::Pending
        })
        .await;
    }

    /// Returns the next task to poll; `None` if no task can continue, or if a task has yielded the
    /// thread.
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
            let Some(owner) = tasks.let_continue(id) else {
                continue;
            };
            if let Some(task) = tasks.tasks.get_mut(&owner)
                && let Some(future) = task.future.take()
            {
                let waker = task.waker.clone();
                tasks.polled = Some((owner, thread::current().id()));
                tasks.polls += 1;
                return Some((owner, future, waker));
            }
        }
    }

    /// Ends a poll. Returns the future of a finished or cancelled task, so that the caller can drop
    /// it without holding the lock.
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
    /// Adds a task or subtask that can continue immediately. A subtask is polled by its owner.
    fn add(
        &mut self,
        scheduler: &Arc<Scheduler>,
        future: Option<TaskFuture>,
        owner: Option<TaskId>,
    ) -> TaskId {
        self.last_id += 1;
        let id = self.last_id;
        let waker = TaskWaker {
            id,
            scheduler: Arc::downgrade(scheduler),
        };
        let task = Task {
            future,
            waker: Arc::new(waker).into(),
            queue: Queue::Ready,
            owner,
            may_continue: owner.is_some(),
        };
        self.tasks.insert(id, task);
        match self.current() {
            Some(_) => self.woken.push(id),
            None => self.ready.push_back(id),
        }
        id
    }

    /// Removes a task from its queue. Returns the task to poll: for a subtask, its owner.
    fn let_continue(&mut self, id: TaskId) -> Option<TaskId> {
        let task = self.tasks.get_mut(&id)?;
        task.queue = Queue::None;
        task.may_continue = true;
        Some(task.owner.unwrap_or(id))
    }

    /// Returns the task that this thread polls.
    fn current(&self) -> Option<TaskId> {
        let (id, thread) = self.polled?;
        (thread == thread::current().id()).then_some(id)
    }

    /// Makes a subtask current if it may continue. Returns its waker and the current task.
    fn begin_subtask(&mut self, id: TaskId) -> Option<(Waker, (TaskId, ThreadId))> {
        let polled = self.polled?;
        if self.store_wait.is_some_and(|(waiting, _)| waiting != id) {
            return None;
        }
        let task = self.tasks.get_mut(&id)?;
        if !std::mem::take(&mut task.may_continue) {
            return None;
        }
        if task.queue == Queue::Ready {
            task.queue = Queue::None;
            self.woken.retain(|woken| *woken != id);
        }
        self.polled = Some((id, polled.1));
        Some((task.waker.clone(), polled))
    }

    /// Returns the number of the current poll on this thread; `None` outside a scheduler's tasks.
    fn current_poll(&self) -> Option<u64> {
        self.current().map(|_| self.polls)
    }

    /// Whether outside completions that arrived before the current task have not entered yet.
    fn has_earlier_completions(&self) -> bool {
        self.current().is_some() && !self.completed.is_empty()
    }

    /// Lets the oldest outside completion enter.
    fn enter_completion(&mut self) -> bool {
        while self.entries_left != Some(0)
            && let Some(id) = self.completed.pop_front()
        {
            self.entries_left = self.entries_left.map(|left| left - 1);
            if self.make_ready(id) {
                self.steps = 0;
                return true;
            }
        }
        false
    }

    /// Lets the task continue that yielded first, unless a completion must enter before.
    fn continue_yielded(&mut self) -> bool {
        while !self.must_enter()
            && let Some(id) = self.yielded.pop_front()
        {
            if self.make_ready(id) {
                self.steps += 1;
                return true;
            }
        }
        false
    }

    /// Returns false if the task was cancelled.
    fn make_ready(&mut self, id: TaskId) -> bool {
        let Some(task) = self.tasks.get_mut(&id) else {
            return false;
        };
        task.queue = Queue::Ready;
        self.ready.push_back(id);
        true
    }

    fn must_enter(&self) -> bool {
        let has_completed = || self.completed.iter().any(|id| self.tasks.contains_key(id));
        self.steps >= STEPS_BEFORE_ENTRY && (self.open_calls > 0 || has_completed())
    }

    /// Queues a task, and returns the runner's waker if the wake comes from outside.
    fn wake(&mut self, id: TaskId) -> Option<Waker> {
        let current = self.current();
        let waits_for_store = self.store_wait.is_some_and(|(waiting, _)| waiting == id);
        let task = self.tasks.get_mut(&id)?;
        let queue = task.queue;
        match (queue, current) {
            (Queue::Ready | Queue::Yielded, _) | (Queue::Completed, None) if !waits_for_store => {
                return None;
            }
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
                return self.runner.clone();
            }
        }
        if queue == Queue::Completed {
            self.remove_completion(id);
        }
        match current {
            Some(_) => None,
            None => self.runner.clone(),
        }
    }

    /// Removes the completion of a task that continues without it. If the task completes again, it
    /// joins the end of the queue.
    fn remove_completion(&mut self, id: TaskId) {
        let place = self.completed.iter().position(|it| *it == id);
        let Some(place) = place else { return };
        self.completed.remove(place);
        if let Some(left) = self.entries_left.filter(|left| place < *left) {
            self.entries_left = Some(left - 1);
        }
    }

    /// Puts woken tasks before all others, in their order.
    fn end_poll(&mut self) {
        self.polled = None;
        for id in std::mem::take(&mut self.woken).into_iter().rev() {
            self.ready.push_front(id);
        }
    }

    /// Puts the current task at the end of a queue and yields the thread.
    fn queue_current(&mut self, queue: Queue) {
        let Some(id) = self.current() else { return };
        if let Some(task) = self.tasks.get_mut(&id) {
            task.queue = queue;
            match queue {
                Queue::Yielded => self.yielded.push_back(id),
                _ => self.completed.push_back(id),
            }
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
    /// A weak reference, because a task's own future may hold its waker.
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

/// A future that a task polls together with others. The order of outside completions treats it like
/// a task.
struct Subtask<'a, F: Future> {
    future: Option<Pin<Box<F>>>,
    output: Option<F::Output>,
    /// The subtask's id; `None` outside a scheduler's tasks.
    id: Option<CancelGuard<'a>>,
}

impl<'a, F: Future> Subtask<'a, F> {
    fn new(scheduler: &'a Arc<Scheduler>, future: F) -> Subtask<'a, F> {
        let mut tasks = scheduler.lock();
        let owner = tasks.current();
        let id = owner.map(|owner| tasks.add(scheduler, None, Some(owner)));
        Subtask {
            future: Some(Box::pin(future)),
            output: None,
            id: id.map(|id| CancelGuard(scheduler, id)),
        }
    }

    /// Polls the future if it may continue. Returns its output if it has finished.
    fn poll(&mut self, scheduler: &Scheduler, cx: &mut Context<'_>) -> Option<&F::Output> {
        let future = self.future.as_mut()?;
        let polled = match &self.id {
            None => future.as_mut().poll(cx),
            Some(CancelGuard(_, id)) => {
                let (waker, owner) = scheduler.lock().begin_subtask(*id)?;
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                scheduler.lock().polled = Some(owner);
                polled
            }
        };
        if let Poll::Ready(output) = polled {
            (self.future, self.id) = (None, None);
            self.output = Some(output);
            return self.output.as_ref();
        }
        None
    }

    /// Lets the future continue if it can do so without an outside completion.
    fn continue_if_ready(&self, scheduler: &Scheduler) {
        if let Some(CancelGuard(_, id)) = self.id {
            let mut tasks = scheduler.lock();
            let task = tasks.tasks.get(&id);
            if task.is_some_and(|task| task.queue == Queue::Ready) {
                tasks.let_continue(id);
            }
        }
    }
}

/// Cancels a task when its awaiter is dropped.
struct CancelGuard<'a>(&'a Scheduler, TaskId);

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        // Release the lock before dropping the task, which may cancel the agents below it.
        let task = self.0.lock().tasks.remove(&self.1);
        drop(task);
    }
}

/// Cancels all tasks when it is dropped. Otherwise the tasks would keep their own run alive.
struct CancelAllGuard<'a>(&'a Scheduler);

impl Drop for CancelAllGuard<'_> {
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

/// A pending call to a model or tool.
struct OpenCall<'a>(&'a Scheduler);

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        let mut tasks = self.0.lock();
        // The end of the run has reset the number before it drops the calls.
        tasks.open_calls = tasks.open_calls.saturating_sub(1);
        tasks.steps = 0;
    }
}
