//! Compares the schema of a database with the one that the migrations create.

use std::collections::BTreeMap;

use retain_core::{Damage, Location, Problem};

/// A part of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaObject {
    /// Its kind, such as `index`. A column is a part of its own if the database describes it alone.
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
    /// The table that it belongs to.
    pub(crate) table: String,
    /// Its definition; equal texts are equal definitions.
    pub(crate) definition: String,
    /// The statement that creates it, if it holds no data of its own.
    pub(crate) create: Option<String>,
    /// Whether it changes nothing that Retain does, such as an index that an operator has added.
    pub(crate) is_harmless: bool,
}

/// A difference between a schema and the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaDifference {
    kind: String,
    name: String,
    what: &'static str,
    advice: String,
    /// The statement that creates the object, and whether the different one must be dropped first.
    pub(crate) create: Option<(String, bool)>,
}

impl SchemaDifference {
    /// Describes the difference. `is_repairable` is false for what no statement can create.
    pub(crate) fn problem(&self) -> Problem {
        let location = Location::Schema {
            object: format!("{} {:?}", self.kind, self.name),
        };
        let damage = Damage::Schema {
            what: self.what.to_owned(),
            advice: self.advice.clone(),
        };
        Problem::new(location, damage, self.create.is_some())
    }

    /// The name of the object.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Compares two schemas. A database of a newer program has more than this program expects, so
/// `has_newer_objects` ignores what is unexpected.
pub(crate) fn compare(
    found: Vec<SchemaObject>,
    expected: Vec<SchemaObject>,
    has_newer_objects: bool,
) -> Vec<SchemaDifference> {
    let key = |object: &SchemaObject| (object.kind.clone(), object.name.clone());
    let mut found: BTreeMap<_, _> = found.into_iter().map(|it| (key(&it), it)).collect();
    let has_table = |object: &SchemaObject| {
        let table = ("table".to_owned(), object.table.clone());
        object.kind == "table" || found.contains_key(&table)
    };
    // Without its table, a part of it cannot be created.
    let expected: Vec<SchemaObject> = expected.into_iter().filter(has_table).collect();
    let mut differences = Vec::new();
    for object in expected {
        let what = match found.remove(&key(&object)) {
            None => "is missing",
            Some(other) if other.definition != object.definition && !has_newer_objects => {
                "differs from the one that Retain creates"
            }
            Some(_) => continue,
        };
        let advice = match what {
            "is missing" => "restore a backup".to_owned(),
            _ => format!("change it back to: {}", object.definition),
        };
        let exists = what != "is missing";
        // Only an index can be dropped and created again without touching data.
        let create = object.create.filter(|_| !exists || object.kind == "index");
        let create = create.map(|create| (create, exists));
        differences.push(SchemaDifference {
            kind: object.kind,
            name: object.name,
            what,
            advice,
            create,
        });
    }
    let extra = found.into_values();
    let extra = extra.filter(|object| !object.is_harmless && !has_newer_objects);
    differences.extend(extra.map(|object| SchemaDifference {
        advice: format!("drop the {} if nothing needs it", object.kind),
        kind: object.kind,
        name: object.name,
        what: "was not created by Retain",
        create: None,
    }));
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, name: &str, definition: &str) -> SchemaObject {
        SchemaObject {
            kind: kind.to_owned(),
            name: name.to_owned(),
            table: "a".to_owned(),
            definition: definition.to_owned(),
            create: (kind == "index").then(|| definition.to_owned()),
            is_harmless: kind == "index",
        }
    }

    #[test]
    fn differences_name_missing_changed_and_extra_objects() {
        let expected = vec![object("table", "a", "x"), object("index", "i", "y")];
        let same = compare(expected.clone(), expected.clone(), false);
        assert_eq!(same, []);
        let found = vec![
            object("table", "a", "z"),
            object("trigger", "t", "w"),
            object("index", "of an operator", "v"),
        ];
        let texts: Vec<String> = compare(found.clone(), expected.clone(), false)
            .iter()
            .map(|difference| difference.problem().to_string())
            .collect();
        assert_eq!(
            texts,
            [
                "schema, table \"a\": differs from the one that Retain creates; change it back to: x",
                "schema, index \"i\": is missing; run `retain check --repair`",
                "schema, trigger \"t\": was not created by Retain; drop the trigger if nothing needs it",
            ]
        );
        assert_eq!(compare(found, expected.clone(), true).len(), 1);
        // The index of a missing table is not reported too.
        assert_eq!(compare(Vec::new(), expected, false).len(), 1);
    }
}
