//! Parts of the JSON Schemas of answers.

use std::{borrow::Cow, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::types::ClosedSet;

/// Stands in schemas for a text that is one word of a closed set.
pub(super) struct OneOf<T>(PhantomData<T>);

impl<T: ClosedSet> JsonSchema for OneOf<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn schema_id() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = T::members().iter().map(|member| member.word()).collect();
        json_schema!({"type": "string", "enum": words})
    }
}
