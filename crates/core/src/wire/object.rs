//! Typed objects: a macro that turns a list of fields into a struct with reader and writer.

use std::borrow::Cow;

use super::schema::FieldSchema;
use crate::json::{Json, JsonError, JsonMap, Reader, Writer};

/// Returns the index of `key` in `fields`. Searches from index `from`, and then the fields before
/// it.
///
/// A reader passes the index after its last match. ADK and Retain write the fields in the order of
/// the table, so reading a whole object costs one pass over the names.
pub(crate) fn find_field(fields: &[FieldSchema], key: &str, from: usize) -> Option<usize> {
    let is_key = |field: &FieldSchema| field.is_named(key);
    let (before, after) = fields.split_at(from);
    match after.iter().position(is_key) {
        Some(index) => Some(from + index),
        None => before.iter().position(is_key),
    }
}

/// The unknown fields of an object, unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extra(Option<Box<JsonMap>>);

impl Extra {
    /// Returns the value of an unknown field.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.0.as_ref()?.get(name)
    }

    /// Sets a field that the struct itself does not have.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Json>) {
        self.0.get_or_insert_default().insert(name, value);
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.0.iter().flat_map(|map| map.iter())
    }

    /// Whether there are no unknown fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn read_field(
        &mut self,
        name: Cow<'_, str>,
        reader: &mut Reader<'_>,
    ) -> Result<(), JsonError> {
        let value = reader.read_json().map_err(|e| e.inside(&name))?;
        self.insert(name, value);
        Ok(())
    }

    /// Writes the fields. An unknown field with the name of a known field is an error, because a
    /// reader would reject the object.
    pub(crate) fn write_fields(&self, known: &[&[FieldSchema]], writer: &mut Writer) {
        for (name, value) in self.iter() {
            if known
                .iter()
                .any(|fields| find_field(fields, name, 0).is_some())
            {
                writer.record_error(format!(
                    "extra field {name:?} conflicts with a declared field of the same name; set the declared field instead"
                ));
            }
            writer.key(name);
            writer.json(value);
        }
    }
}

/// Declares a struct for one of ADK's objects: its table, structs whose fields are flattened into
/// it (`with`), and a Rust type for each field. The table has the names and types; a field that
/// differs from it does not compile. Unknown fields go to `extra`.
macro_rules! wire_object {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident: $table:ident $( with $($flat:ident: $flat_type:ident),* )? {
            $( $(#[$field_meta:meta])* $field:ident: $type:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        $vis struct $name {
            $( $( #[doc = concat!("The fields of [`", stringify!($flat_type), "`], at the same level as these in JSON.")]
                pub $flat: $flat_type, )* )?
            $( $(#[$field_meta])* pub $field: $type, )*
            /// Unknown fields, unchanged.
            pub extra: $crate::wire::Extra,
        }

        const _: () = {
            $crate::wire::assert_same_fields(
                $name::FIELDS,
                &[ $( (stringify!($field), <$type as $crate::wire::Wire>::TYPE) ),* ],
            );
            let (fields, at) = ($crate::wire::table::$table.fields, 0);
            $( $( let at = $crate::wire::assert_fields_at(fields, at, $flat_type::FIELDS); )* )?
            let _ = (fields, at);
        };

        impl $name {
            pub(crate) const FIELDS: &[$crate::wire::FieldSchema] = {
                let flat = 0 $( $( + $flat_type::FIELDS.len() )* )?;
                $crate::wire::table::$table.fields.split_at(flat).1
            };

            pub(crate) fn read_known(
                &mut self,
                index: usize,
                reader: &mut $crate::json::Reader<'_>,
            ) -> Result<(), $crate::json::JsonError> {
                #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
                enum FieldIndex { $($field),* }
                $( if index == FieldIndex::$field as usize {
                    if reader.take_null() {
                        self.$field = Default::default();
                        return Ok(());
                    }
                    $crate::wire::Wire::read_into(&mut self.$field, reader)
                        .map_err(|e: $crate::json::JsonError| e.inside($name::FIELDS[index].camel))?;
                } )*
                Ok(())
            }

            pub(crate) fn write_known(&self, writer: &mut $crate::json::Writer) {
                let mut fields = $name::FIELDS.iter();
                $( let name = fields.next();
                if let Some(name) = name && !$crate::wire::Wire::is_absent(&self.$field) {
                    writer.field(name.camel, name.snake);
                    $crate::wire::Wire::write(&self.$field, writer);
                } )*
            }
        }

        impl $crate::wire::Wire for $name {
            const TYPE: &'static $crate::wire::ValueType =
                &$crate::wire::ValueType::Object(&$crate::wire::table::$table);

            fn read(
                reader: &mut $crate::json::Reader<'_>,
            ) -> Result<$name, $crate::json::JsonError> {
                let mut object = $name::default();
                object.read_into(reader)?;
                Ok(object)
            }

            fn read_into(
                &mut self,
                reader: &mut $crate::json::Reader<'_>,
            ) -> Result<(), $crate::json::JsonError> {
                let object = self;
                // One bit per field: a repeated name, in either spelling, is an error.
                let mut seen = 0u64;
                $( $( let mut $flat = (0usize, 0u64); )* )?
                reader.begin_object()?;
                let (mut first, mut from) = (true, 0);
                while let Some(key) = reader.next_key(&mut first)? {
                    if let Some(index) = $crate::wire::find_field($name::FIELDS, &key, from) {
                        if seen & (1 << index) != 0 {
                            return Err(reader.duplicate_field().inside(&key));
                        }
                        seen |= 1 << index;
                        from = index + 1;
                        object.read_known(index, reader)?;
                        continue;
                    }
                    $( $(
                        if let Some(index) =
                            $crate::wire::find_field($flat_type::FIELDS, &key, $flat.0)
                        {
                            if $flat.1 & (1 << index) != 0 {
                                return Err(reader.duplicate_field().inside(&key));
                            }
                            $flat = (index + 1, $flat.1 | (1 << index));
                            object.$flat.read_known(index, reader)?;
                            continue;
                        }
                    )* )?
                    object.extra.read_field(key, reader)?;
                }
                Ok(())
            }

            fn write(&self, writer: &mut $crate::json::Writer) {
                writer.begin_object();
                $( $( self.$flat.write_known(writer); )* )?
                self.write_known(writer);
                let known = &[ $( $( $flat_type::FIELDS, )* )? $name::FIELDS ];
                $( $( self.$flat.extra.write_fields(known, writer); )* )?
                self.extra.write_fields(known, writer);
                writer.end_object();
            }
        }
    };
}
pub(crate) use wire_object;
