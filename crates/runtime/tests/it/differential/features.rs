//! The features of a history, so that the test can check that the cases cover each of them.

use retain_core::{Event, Events, Json, Part};

use crate::differential::history::History;

macro_rules! features {
    ($($name:ident)*) => {
        /// A feature that some histories have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Feature { $($name),* }

        impl Feature {
            pub(crate) const ALL: &[Feature] = &[$(Feature::$name),*];
        }
    };
}

features! {
    Plain SeveralAuthors Branches BranchBelow BranchBeside ToolBranch Scopes Nodes OtherNodesInput
    Rewinds RewoundRewind RewindToUnknownRun
    Compactions NestedCompactions OverlappingCompactions BackwardCompaction EqualCompactions
    CallInCompaction
    Thoughts OnlyThoughts Signatures EmptyContents NoRole
    InputTranscriptions OutputTranscriptions SpeechWithContent LiveSession
    EqualTimes DecreasingTimes
    ParallelCalls LongRunning MissingResponse LateResponse SeveralResponses OrphanResponse
    ReusedId CallWithoutId CallAndResponseInOne UserSendsResult ResponseToSeveralCalls
    ConfirmationAsked InternalCalls Transfer Errors OnlyState AgentState Markers Media ServerTools
    CurrentTurn PreservedIds StrippedIds SingleTurn ShownThoughts
    Quoted ElidedMarker TaskFromCall TaskFromUser TextsJoined Emptied
}

/// Returns the features of a history and of its contents.
pub(crate) fn find(history: &History, ours: &Json) -> Vec<Feature> {
    let mut found = Vec::new();
    in_options(history, &mut found);
    in_events(&history.events, &mut found);
    in_calls(&history.events, &mut found);
    in_call_events(&history.events, &mut found);
    in_compactions(&history.events, &mut found);
    in_answer(history, ours, &mut found);
    found
}

fn push_if(found: &mut Vec<Feature>, feature: Feature, is_so: bool) {
    if is_so {
        found.push(feature);
    }
}

fn parts(events: &Events) -> impl Iterator<Item = (usize, &Part)> {
    let contents = events.iter().enumerate();
    let contents = contents.filter_map(|(place, event)| Some((place, event.content()?)));
    contents.flat_map(|(place, content)| content.parts().iter().map(move |part| (place, part)))
}

fn in_options(history: &History, found: &mut Vec<Feature>) {
    let below = |branch: &str| match history.branch {
        Some(base) if !base.is_empty() => branch.starts_with(&format!("{base}.")),
        _ => !branch.is_empty(),
    };
    let branches = history
        .events
        .iter()
        .filter_map(|event| event.branch.as_deref());
    let branches: Vec<&str> = branches.filter(|branch| below(branch)).collect();
    push_if(found, Feature::BranchBelow, !branches.is_empty());
    let is_beside = |event: &Event| {
        let branches = (history.branch.unwrap_or_default(), event.branch.as_deref());
        let (base, branch) = (branches.0, branches.1.unwrap_or_default());
        let (helper, critic) = ("main.helper", "main.critic");
        (base.starts_with(helper) && branch.starts_with(critic))
            || (base.starts_with(critic) && branch.starts_with(helper))
    };
    let has_beside = history.events.iter().any(is_beside);
    push_if(found, Feature::BranchBeside, has_beside);
    let ids: Vec<String> = calls(&history.events).filter_map(|(_, id)| id).collect();
    let is_tools = |branch: &&str| {
        ids.iter()
            .any(|id| branch.contains(&format!("lookup@{id}")))
    };
    push_if(found, Feature::ToolBranch, branches.iter().any(is_tools));
    push_if(found, Feature::CurrentTurn, history.is_current_turn_only);
    push_if(found, Feature::PreservedIds, history.keeps_ids);
    push_if(found, Feature::SingleTurn, history.is_single_turn);
    push_if(found, Feature::ShownThoughts, history.thoughts);
}

fn in_events(events: &Events, found: &mut Vec<Feature>) {
    let any = |is_so: &dyn Fn(&Event) -> bool| events.iter().any(is_so);
    let mut put = |feature, is_so| push_if(found, feature, is_so);
    let authors = |name: &'static str| events.iter().any(|event| event.author == name);
    put(
        Feature::SeveralAuthors,
        authors("main") && authors("helper"),
    );
    put(Feature::Branches, any(&|event| event.branch.is_some()));
    put(
        Feature::Scopes,
        any(&|event| event.isolation_scope.is_some()),
    );
    let has_path = |event: &Event| event.node_info.as_ref().is_some_and(|it| it["path"] != "");
    put(Feature::Nodes, any(&has_path));
    put(
        Feature::OtherNodesInput,
        any(&|event| event.author == "user" && has_path(event)),
    );
    put(
        Feature::LiveSession,
        any(&|event| event.response.live_session_id.is_some()),
    );
    put(
        Feature::Errors,
        any(&|event| event.response.error_code.is_some()),
    );
    put(
        Feature::OnlyState,
        any(&|event| !event.actions.state_delta.is_empty()),
    );
    put(
        Feature::AgentState,
        any(&|event| event.actions.agent_state.is_some()),
    );
    put(
        Feature::Transfer,
        any(&|event| event.actions.transfer_to_agent.is_some()),
    );
    in_sequence(events, &mut put);
    in_contents(events, &mut put);
}

fn in_contents(events: &Events, put: &mut impl FnMut(Feature, bool)) {
    let any = |is_so: &dyn Fn(&Event) -> bool| events.iter().any(is_so);
    let asks = |event: &Event| event.actions.requested_tool_confirmations["c1"] != Json::Null;
    put(Feature::ConfirmationAsked, any(&asks));
    let is_empty = |event: &Event| event.content().is_some_and(|it| it.parts().is_empty());
    put(Feature::EmptyContents, any(&is_empty));
    let has_no_role = |event: &Event| {
        let content = event.content();
        content.is_some_and(|it| it.role.as_deref().unwrap_or_default().is_empty())
    };
    put(Feature::NoRole, any(&has_no_role));
    let only_thinks = |event: &Event| {
        let parts = event
            .content()
            .map(|content| content.parts())
            .unwrap_or_default();
        !parts.is_empty() && parts.iter().all(|part| part.thought == Some(true))
    };
    put(Feature::OnlyThoughts, any(&only_thinks));
    let has = |is_so: fn(&Part) -> bool| parts(events).any(|(_, part)| is_so(part));
    put(Feature::Thoughts, has(|part| part.thought == Some(true)));
    put(
        Feature::Signatures,
        has(|part| part.thought_signature.is_some()),
    );
    put(Feature::Media, has(|part| part.inline_data.is_some()));
    put(Feature::ServerTools, has(|part| part.tool_call.is_some()));
    let is_marker = |part: &Part| part.text.as_ref().is_some_and(|it| it.contains("_QUOTED_"));
    put(Feature::Markers, has(is_marker));
}

fn in_sequence(events: &Events, put: &mut impl FnMut(Feature, bool)) {
    let pairs: Vec<(&Event, &Event)> = events.iter().zip(events.iter().skip(1)).collect();
    let any = |is_so: &dyn Fn(&(&Event, &Event)) -> bool| pairs.iter().any(is_so);
    put(
        Feature::EqualTimes,
        any(&|(a, b)| a.timestamp == b.timestamp),
    );
    put(
        Feature::DecreasingTimes,
        any(&|(a, b)| a.timestamp > b.timestamp),
    );
    let is_input = |event: &Event| event.response.input_transcription.is_some();
    let is_output = |event: &Event| event.response.output_transcription.is_some();
    put(
        Feature::InputTranscriptions,
        any(&|(a, b)| is_input(a) && is_input(b)),
    );
    put(
        Feature::OutputTranscriptions,
        any(&|(a, b)| is_output(a) && is_output(b)),
    );
    let mixed = |event: &Event| (is_input(event) || is_output(event)) && event.content().is_some();
    put(Feature::SpeechWithContent, events.iter().any(mixed));
    let rewind = |event: &Event| event.actions.rewind_before_invocation_id.clone();
    let rewinds = events.iter().enumerate();
    let rewinds: Vec<_> = rewinds
        .filter_map(|(place, event)| Some((place, rewind(event)?)))
        .collect();
    put(Feature::Rewinds, !rewinds.is_empty());
    let first = |id: &str| events.iter().position(|event| event.invocation_id == id);
    put(
        Feature::RewindToUnknownRun,
        rewinds.iter().any(|(_, id)| first(id).is_none()),
    );
    let is_rewound = |(place, id): &(usize, String)| {
        let target = first(id).unwrap_or(usize::MAX);
        rewinds
            .iter()
            .any(|(other, _)| target <= *other && other < place)
    };
    put(Feature::RewoundRewind, rewinds.iter().any(is_rewound));
}

/// Returns the position and the id of each call; the id is `None` if the call has none.
fn calls(events: &Events) -> impl Iterator<Item = (usize, Option<String>)> {
    let calls =
        parts(events).filter_map(|(place, part)| Some((place, part.function_call.as_ref()?)));
    calls.map(|(place, call)| (place, call.id.clone().filter(|id| !id.is_empty())))
}

fn in_calls(events: &Events, found: &mut Vec<Feature>) {
    let calls: Vec<(usize, Option<String>)> = calls(events).collect();
    let responses = parts(events)
        .filter_map(|(place, part)| Some((place, part.function_response.as_ref()?.id.clone()?)));
    let responses: Vec<(usize, String)> = responses.collect();
    let mut put = |feature, is_so| push_if(found, feature, is_so);
    put(
        Feature::Plain,
        !events.is_empty() && calls.is_empty() && responses.is_empty(),
    );
    put(
        Feature::CallWithoutId,
        calls.iter().any(|(_, id)| id.is_none()),
    );
    let made = calls
        .iter()
        .filter_map(|(place, id)| Some((*place, id.as_deref()?)));
    let made: Vec<(usize, &str)> = made.collect();
    let answers = |id: &str| responses.iter().filter(move |(_, it)| *it == id).count();
    put(
        Feature::MissingResponse,
        made.iter().any(|(_, id)| answers(id) == 0),
    );
    put(
        Feature::SeveralResponses,
        made.iter().any(|(_, id)| answers(id) > 1),
    );
    let uses = |id: &str| made.iter().filter(move |(_, it)| *it == id).count();
    put(Feature::ReusedId, made.iter().any(|(_, id)| uses(id) > 1));
    let call_before = |place: usize, id: &str| {
        let before = made.iter().filter(|(call, it)| *call < place && *it == id);
        before.map(|(call, _)| *call).next_back()
    };
    let is_late =
        |(place, id): &(usize, String)| call_before(*place, id).is_some_and(|it| it + 1 < *place);
    put(Feature::LateResponse, responses.iter().any(is_late));
    let is_orphan = |(place, id): &(usize, String)| call_before(*place, id).is_none();
    put(Feature::OrphanResponse, responses.iter().any(is_orphan));
    let answers_several = events.iter().enumerate().any(|(place, _)| {
        let own = responses.iter().filter(|(it, _)| *it == place);
        let owners: Vec<usize> = own.filter_map(|(_, id)| call_before(place, id)).collect();
        owners.iter().any(|owner| *owner != owners[0])
    });
    put(Feature::ResponseToSeveralCalls, answers_several);
}

fn in_call_events(events: &Events, found: &mut Vec<Feature>) {
    let mut put = |feature, is_so| push_if(found, feature, is_so);
    let is_parallel = |event: &Event| event.function_calls().len() > 1;
    put(Feature::ParallelCalls, events.iter().any(is_parallel));
    let is_long = |event: &Event| {
        let ids = event.long_running_tool_ids.as_ref();
        ids.is_some_and(|ids| !ids.is_empty())
    };
    put(Feature::LongRunning, events.iter().any(is_long));
    let both = |event: &Event| {
        !event.function_calls().is_empty() && !event.function_responses().is_empty()
    };
    put(Feature::CallAndResponseInOne, events.iter().any(both));
    let sent = |event: &Event| event.author == "user" && !event.function_responses().is_empty();
    put(Feature::UserSendsResult, events.iter().any(sent));
    let is_internal = |event: &Event| {
        let mut names = event
            .function_calls()
            .into_iter()
            .filter_map(|call| call.name.as_deref());
        names.any(|name| name.starts_with("adk_"))
    };
    put(Feature::InternalCalls, events.iter().any(is_internal));
}

fn in_compactions(events: &Events, found: &mut Vec<Feature>) {
    let spans = events
        .iter()
        .filter_map(|event| event.actions.compaction.as_ref());
    let spans: Vec<(f64, f64)> = spans
        .map(|it| (it.start_timestamp, it.end_timestamp))
        .collect();
    let mut put = |feature, is_so| push_if(found, feature, is_so);
    put(Feature::Compactions, !spans.is_empty());
    put(
        Feature::BackwardCompaction,
        spans.iter().any(|(start, end)| start > end),
    );
    let pairs = |is_so: fn((f64, f64), (f64, f64)) -> bool| {
        (0..spans.len())
            .any(|i| (0..i).any(|j| is_so(spans[i], spans[j]) || is_so(spans[j], spans[i])))
    };
    put(Feature::EqualCompactions, pairs(|a, b| a == b));
    put(
        Feature::NestedCompactions,
        pairs(|a, b| a.0 < b.0 && b.1 < a.1 && b.0 <= b.1),
    );
    put(
        Feature::OverlappingCompactions,
        pairs(|a, b| a.0 < b.0 && b.0 <= a.1 && a.1 < b.1),
    );
    let is_covered = |time: f64| {
        spans
            .iter()
            .any(|(start, end)| *start <= time && time <= *end)
    };
    let is_lost_call = |event: &Event| {
        let calls = event.function_calls();
        calls.iter().any(|call| call.id.is_some()) && is_covered(event.timestamp)
    };
    put(Feature::CallInCompaction, events.iter().any(is_lost_call));
}

fn in_answer(history: &History, ours: &Json, found: &mut Vec<Feature>) {
    let contents = ours["contents"].as_array().unwrap_or_default();
    let text = ours.to_string();
    let mut put = |feature, is_so| push_if(found, feature, is_so);
    put(Feature::Quoted, text.contains("For context: below is"));
    put(Feature::ElidedMarker, text.contains("ELIDED_MARKER"));
    put(
        Feature::TextsJoined,
        text.contains("la lu") || text.contains("la la"),
    );
    put(
        Feature::Emptied,
        contents.is_empty() && !history.events.is_empty(),
    );
    let first = contents
        .first()
        .map(|first| first["parts"][0]["text"].clone());
    let first = first.unwrap_or_default();
    let is_task = history.scope.is_some() && first.as_str().is_some();
    let says = |start: &str| first.as_str().is_some_and(|text| text.starts_with(start));
    put(Feature::TaskFromCall, is_task && says("{\""));
    put(Feature::TaskFromUser, is_task && says("the task"));
    let ids = calls(&history.events).filter_map(|(_, id)| id);
    let has_client_ids = ids.into_iter().any(|id| id.starts_with("adk-"));
    let is_stripped = has_client_ids && !history.keeps_ids && text.contains("functionCall");
    put(Feature::StrippedIds, is_stripped);
}
