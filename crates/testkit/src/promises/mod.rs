//! The promises, one function each, named after what it checks. A store fulfills each promise or
//! lists it as an exception with a reason.
//!
//! [`session_promises!`](crate::session_promises) is the complete list of them.

#![allow(
    clippy::unwrap_used,
    reason = "promises are test code that lives in a library"
)]

mod append;
mod budget;
mod common;
mod create;
mod delete;
mod erase;
mod fork;
mod ids;
mod limits;
mod list;
mod maintenance;
mod migrate;
mod read;
mod repeat;
mod rewind;
mod rewind_artifacts;
mod runs;
mod state;
mod tail;
mod transfer;
mod ttl;
mod usage;

pub use append::*;
pub use budget::*;
pub use create::*;
pub use delete::*;
pub use erase::*;
pub use fork::*;
pub use ids::*;
pub use limits::*;
pub use list::*;
pub use maintenance::*;
pub use migrate::*;
pub use read::*;
pub use repeat::*;
pub use rewind::*;
pub use rewind_artifacts::*;
pub use runs::*;
pub use state::*;
pub use tail::*;
pub use transfer::*;
pub use ttl::*;
pub use usage::*;

/// Turns every promise into a test of the store that the expression opens.
///
/// ```ignore
/// mod sqlite {
///     retain_testkit::session_promises!(open());
/// }
/// mod other {
///     retain_testkit::session_promises!(open(), except: [
///         tail_sees_events_of_a_second_instance = "this store has one process by design",
///     ]);
/// }
/// ```
///
/// The expression is a future of a fresh [`Harness`](crate::Harness). List each promise that the
/// store does not fulfill in `except`, with the reason; its test is then ignored. If the store
/// needs a service, `needs: is_there()` reports whether it is available; if it is not, the tests
/// return early.
#[macro_export]
macro_rules! session_promises {
    ($open:expr $(, needs: $needs:expr)?
        $(, except: [$($promise:ident = $reason:literal),* $(,)?])?) => {
        // A misspelled exception must not compile.
        $($( const _: () = { let _ = $crate::promises::$promise; }; )*)?
        $crate::session_promises! { @except ($) $($($promise = $reason),*)? }
        $crate::session_promises! { @each $open, [$($needs)?];
            // create
            create_keeps_the_given_id,
            create_without_id_generates_one,
            create_with_a_blank_id_generates_one,
            create_keeps_blanks_around_an_id,
            new_session_is_empty,
            create_splits_the_initial_state_by_scope,
            create_merges_shared_state_key_by_key,
            create_drops_temp_keys,
            state_at_position_zero_is_the_initial_state,
            creating_an_existing_session_fails_and_changes_nothing,
            exactly_one_of_concurrent_creates_wins,
            same_id_under_another_user_is_another_session,
            different_session_keys_never_collide,
            // read
            read_returns_all_events_in_order,
            read_returns_the_newest_events,
            newest_zero_returns_state_without_events,
            read_after_a_timestamp_includes_it,
            read_applies_the_time_filter_before_the_count,
            read_returns_a_range_of_positions,
            window_conditions_apply_one_after_the_other,
            read_of_a_missing_session_is_none,
            read_is_a_consistent_snapshot_during_appends,
            second_instance_reads_what_the_first_wrote,
            everything_survives_reopening,
            refresh_loads_missed_events_without_gap_or_repeat,
            refresh_of_a_partly_loaded_session_adds_only_new_events,
            refresh_keeps_temp_keys,
            refresh_of_a_deleted_session_is_not_found,
            refresh_does_not_mix_two_sessions_with_the_same_id,
            // memory
            page_is_limited_by_bytes_and_has_at_least_one_event,
            tail_holds_one_page_of_a_large_session,
            export_holds_one_page_of_a_large_session,
            page_of_a_list_counts_only_its_sessions,
            // list
            list_returns_one_users_sessions,
            list_without_user_returns_all_users,
            list_of_an_unknown_app_is_empty,
            list_is_ordered_by_update_user_and_id,
            list_pages_show_each_session_once,
            long_list_has_the_state_of_each_session,
            list_pages_continue_after_a_deleted_session,
            list_cursor_survives_printing_and_parsing,
            list_has_state_only_if_requested,
            encoded_list_equals_the_list,
            list_has_times_and_positions,
            // delete
            delete_removes_the_session,
            delete_is_idempotent,
            delete_keeps_shared_state,
            delete_does_not_change_other_sessions,
            append_after_delete_is_not_found,
            recreated_session_is_empty,
            run_cannot_append_after_its_session_is_deleted,
            operations_on_a_missing_session_are_not_found,
            session_is_deleted_despite_concurrent_appends,
            deleted_session_stays_deleted_after_reopening,
            waiting_run_fails_when_the_session_is_deleted,
            // append
            positions_are_dense_from_one,
            failed_appends_leave_no_gap,
            partial_events_are_not_stored,
            append_to_a_missing_session_is_not_found,
            append_fills_in_id_and_time,
            append_returns_the_stored_event,
            batch_is_all_or_nothing,
            failed_append_leaves_the_live_session_untouched,
            events_are_ordered_by_append_not_by_timestamp,
            last_update_time_follows_the_last_event,
            append_at_the_expected_position_succeeds,
            append_with_a_wrong_expected_position_is_a_conflict,
            exactly_one_of_the_writers_expecting_a_position_succeeds,
            concurrent_appends_keep_every_event,
            concurrent_writers_of_different_keys_lose_nothing,
            live_session_equals_a_fresh_read,
            shared_live_session_receives_every_event,
            empty_append_changes_nothing,
            events_are_stored_byte_for_byte,
            state_values_are_stored_exactly,
            long_log_is_stored_completely,
            // repeat
            repeated_event_changes_nothing,
            batch_of_old_and_new_events_stores_the_new_ones,
            repeated_id_in_a_batch_is_one_event_or_a_conflict,
            concurrent_repeats_are_stored_once,
            second_instance_recognizes_a_repeat,
            repeat_is_recognized_after_reopening,
            superseded_run_may_repeat_an_append_that_was_stored,
            repeat_ignores_an_outdated_expected_position,
            repeat_with_another_key_order_is_recognized,
            repeat_without_a_time_is_recognized_later,
            repeat_returns_the_stored_event,
            live_session_receives_a_repeated_event_once,
            repeat_of_an_unloaded_event_leaves_the_live_session_unchanged,
            handle_of_a_deleted_session_cannot_append_to_a_new_one,
            ended_run_cannot_append,
            repeated_begin_waits_until_the_lost_lease_expires,
            event_too_deep_to_export_is_refused,
            another_event_with_a_known_id_is_a_conflict,
            integer_and_float_make_different_events,
            temp_keys_do_not_make_a_different_event,
            same_event_id_in_two_sessions_is_allowed,
            // state
            temp_keys_are_visible_in_the_live_session_only,
            shared_keys_are_visible_in_other_sessions_at_once,
            stored_events_keep_their_shared_keys,
            null_is_stored_as_null,
            nested_maps_are_replaced_not_merged,
            keys_outside_the_delta_keep_their_value,
            later_event_of_a_batch_overrides_earlier,
            keys_with_an_unknown_prefix_are_session_keys,
            shared_state_of_an_unknown_user_is_empty,
            state_at_every_position_equals_the_fold_of_the_events,
            state_at_has_the_current_shared_state,
            state_beyond_the_end_fails_with_position_not_found,
            changing_a_loaded_session_does_not_change_the_store,
            // runs
            run_gets_its_token_with_the_first_append,
            run_may_begin_without_events,
            second_run_that_does_not_wait_is_busy,
            second_run_waits_for_the_first,
            run_of_a_second_instance_waits_for_the_first,
            waiting_runs_get_the_lease_in_order,
            wait_times_out_with_run_busy,
            expired_lease_does_not_block_a_run,
            lease_duration_is_configurable,
            waiting_run_gets_the_expired_lease,
            outdated_run_token_is_refused,
            unknown_run_token_is_refused,
            expired_run_continues_if_no_other_run_took_over,
            append_of_a_run_renews_its_lease,
            lease_can_be_renewed_without_an_append,
            ending_a_run_releases_its_lease,
            ending_a_run_with_its_last_append_releases_its_lease,
            ending_a_run_with_a_repeated_append_releases_its_lease,
            append_without_a_token_does_not_affect_a_run,
            run_that_fails_to_begin_holds_no_lease,
            nested_run_in_the_same_session_fails_at_once,
            cancelled_wait_stores_nothing_and_leaves_the_queue,
            dropped_wait_withdraws_its_ticket,
            runs_of_other_sessions_do_not_wait,
            events_of_two_runs_do_not_interleave,
            busy_instance_does_not_starve_another,
            waiting_run_of_another_instance_is_not_overtaken,
            dropped_waiter_does_not_block_the_queue,
            ticket_of_a_silent_waiter_expires,
            lease_survives_reopening,
            // rewind
            rewind_restores_the_state_exactly,
            rewind_event_has_the_deltas_of_adk,
            rewind_does_not_change_shared_state,
            rewinding_an_unknown_invocation_is_not_found,
            invalid_invocation_id_is_not_found,
            rewinding_twice_gives_the_same_state,
            rewind_can_be_rewound,
            rewind_does_not_change_the_state_at_earlier_positions,
            rewind_event_written_by_adk_restores_the_state_exactly,
            rewind_event_written_by_adk_may_set_further_keys,
            rewind_event_for_an_unknown_invocation_applies_only_its_delta,
            events_around_a_rewind_in_a_batch_apply_in_order,
            batch_may_rewind_its_own_events,
            repeated_rewind_is_stored_once,
            live_session_after_a_rewind_equals_a_fresh_read,
            rewind_waits_for_the_lease_of_an_active_run,
            state_after_concurrent_rewinds_and_appends_equals_the_fold,
            rewound_events_stay_in_the_log,
            rewind_after_repeated_events_starts_from_the_current_state,
            // rewind_artifacts
            rewind_restores_artifacts,
            rewind_without_an_artifact_service_keeps_artifacts,
            rewind_undoes_appends_made_while_artifacts_are_restored,
            no_run_begins_while_artifacts_are_restored,
            rewind_that_failed_at_an_artifact_can_be_repeated,
            rewind_undoes_artifacts_of_an_active_run,
            dropped_rewind_releases_the_lease,
            rewind_error_for_an_invalid_version_names_the_file,
            // fork
            fork_has_the_same_history,
            fork_defaults_to_the_end_and_a_generated_id,
            fork_beyond_the_end_fails_with_position_not_found,
            fork_to_an_existing_id_fails_with_already_exists,
            fork_records_its_origin,
            fork_and_origin_change_independently,
            fork_has_the_state_at_every_earlier_position,
            fork_recognizes_repeats_of_copied_events,
            fork_has_no_lease_while_its_origin_runs,
            exactly_one_of_concurrent_forks_wins,
            forked_session_can_be_read_by_time,
            // ttl
            expired_session_is_not_found,
            operations_on_an_expired_session_are_not_found,
            id_of_an_expired_session_can_be_reused,
            fork_may_reuse_the_id_of_an_expired_session,
            append_restarts_the_ttl,
            event_timestamps_do_not_extend_the_ttl,
            list_has_expiry_times,
            sweep_deletes_and_counts_expired_sessions,
            session_without_ttl_never_expires,
            ttl_of_the_service_is_the_default,
            ttl_survives_reopening,
            // maintenance
            append_records_the_work_that_must_follow_it,
            finished_work_is_no_longer_pending,
            work_of_a_later_event_stays_pending,
            repeated_append_does_not_repeat_its_work,
            work_of_an_active_run_is_not_listed,
            pending_work_is_listed_page_by_page,
            pending_statistics_count_sessions_and_their_age,
            pending_work_ends_with_its_session,
            pending_work_is_visible_to_other_instances,
            task_lease_has_one_holder,
            task_lease_expires_unless_it_is_renewed,
            exactly_one_of_concurrent_processes_gets_a_task_lease,
            expired_sessions_are_listed_page_by_page,
            recreated_session_is_not_deleted_as_expired,
            // tail
            tail_returns_history_and_then_new_events,
            tail_starts_after_a_position,
            tail_returns_events_byte_for_byte,
            tail_has_no_gap_and_no_repeat_during_concurrent_appends,
            tail_sees_events_of_a_second_instance,
            tail_returns_every_event_of_a_batch,
            tail_returns_a_long_history,
            each_of_many_tails_follows_its_own_session,
            tail_of_a_missing_session_ends_with_not_found,
            tail_ends_when_the_session_is_deleted,
            tail_does_not_continue_in_a_recreated_session,
            dropped_tail_does_not_affect_others,
            // transfer
            session_created_with_its_history_equals_an_appended_one,
            create_with_a_refused_history_stores_nothing,
            history_of_a_created_session_changes_no_shared_keys,
            session_survives_export_and_import,
            imported_session_can_be_read_by_time,
            user_survives_export_and_import,
            app_survives_export_and_import,
            import_sets_missing_shared_keys,
            user_without_sessions_survives_export_and_import,
            refused_import_sets_no_shared_keys,
            ttl_survives_export_and_import,
            rewinds_survive_export_and_import,
            imported_session_accepts_appends,
            import_of_an_existing_session_changes_nothing,
            truncated_import_leaves_no_partial_session,
            corrupt_import_names_the_line,
            import_with_lines_out_of_order_is_refused,
            import_ignores_empty_lines,
            export_of_a_scope_without_sessions_is_empty,
            export_contains_only_its_scope,
            export_is_one_json_object_per_line,
            // migrate
            session_keys_are_listed_once_in_order,
            owners_of_shared_keys_are_listed_once_in_order,
            add_shared_state_sets_only_missing_keys,
            migrated_session_keeps_its_expiry,
            migration_copies_everything,
            migration_does_not_overwrite_different_data,
            // erase
            erase_removes_everything_of_a_user,
            erase_keeps_other_users,
            repeated_erase_counts_zero,
            erased_user_starts_again_without_old_data,
            erase_removes_user_keys_without_sessions,
            erase_ends_the_tails_of_the_user,
            erased_user_stays_erased_after_reopening,
            // ids
            unusual_session_ids_are_stored_exactly_or_refused,
            unusual_user_ids_are_stored_exactly_or_refused,
            unusual_app_names_are_stored_exactly_or_refused,
            unusual_event_ids_are_stored_exactly_or_refused,
            unusual_state_keys_are_stored_exactly_or_refused,
            unusual_ids_survive_export_and_import,
            invalid_session_keys_are_refused,
            // limits
            size_of_an_event_is_limited,
            length_of_a_state_key_is_limited,
            size_of_a_batch_is_limited,
            size_of_state_is_limited_in_each_scope,
            shared_state_is_limited_across_sessions,
            size_of_initial_state_is_limited,
            length_of_ids_is_limited,
            default_limits_allow_large_events,
            invalid_timestamp_is_refused,
            lowered_state_limit_refuses_only_growth,
            // usage
            usage_equals_the_sum_over_the_logs_after_random_operations,
            usage_counts_a_repeated_event_once,
            write_beyond_a_quota_stores_nothing,
            quota_is_never_exceeded_by_concurrent_appends,
            repeated_append_succeeds_at_a_full_quota,
            run_is_refused_at_its_beginning_when_a_quota_is_reached,
            deletion_makes_room_under_a_quota,
            quota_of_an_app_counts_all_its_users,
            writes_of_another_instance_count_after_the_reload_interval,
        }
    };
    // Define a macro that adds `#[ignore]` to the tests of the exceptions.
    (@except ($d:tt) $($promise:ident = $reason:literal),*) => {
        macro_rules! unless_excepted {
            $( ($promise $d($d test:tt)*) => { #[ignore = $reason] $d($d test)* }; )*
            ($d promise:ident $d($d test:tt)*) => { $d($d test)* };
        }
    };
    (@each $open:expr, $needs:expr; $($promise:ident),* $(,)?) => { $(
        unless_excepted! { $promise
            #[tokio::test(flavor = "multi_thread")]
            async fn $promise() {
                let needs: [bool; _] = $needs;
                if needs.contains(&false) {
                    return;
                }
                let harness = $open.await.with_another(|| $open);
                $crate::promises::$promise(harness).await;
            }
        }
    )* };
}
