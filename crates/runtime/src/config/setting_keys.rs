//! Checks the keys inside `generate_content_config` against ADK's table. Values go to the provider
//! unchanged, so a misspelled key would otherwise go unnoticed.

use retain_core::adk::ValueType;

use super::{
    error::ConfigError,
    value::{ConfigValue, unknown_key},
};

/// Returns an error if the value has an unknown key at any depth.
pub(super) fn check(
    what: &str,
    expected: &ValueType,
    place: &ConfigValue<'_>,
) -> Result<(), ConfigError> {
    if place.is_null() {
        return Ok(());
    }
    if let ValueType::List(item) = expected
        && !item.objects().is_empty()
    {
        let mut items = place.list()?.into_iter();
        return items.try_for_each(|place| check(what, item, &place));
    }
    let objects = expected.objects();
    let is_text = matches!(expected, ValueType::Union(_)) && place.as_text().is_some();
    if objects.is_empty() || is_text {
        return Ok(());
    }
    for (key, value) in place.pairs(what)? {
        let Some(field) = objects.iter().find_map(|object| object.field(key)) else {
            let names = objects.iter().flat_map(|object| object.snake_names());
            let names: Vec<&str> = names.collect();
            return Err(value.error(unknown_key(key, what, &names)));
        };
        check(field.snake, &field.value, &value)?;
    }
    Ok(())
}
