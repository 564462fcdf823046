/** A form drawn from a JSON Schema. Import it with `lazy`: rjsf is large. */
import { useMemo } from "react";

import { Validator } from "@cfworker/json-schema";
// Not from "@rjsf/core": its index imports the validator that our content security policy forbids.
import Form from "@rjsf/core/lib/components/Form.js";
import {
  type FieldProps, type IconButtonProps, type MultiSchemaFieldTemplateProps, type RJSFSchema, toErrorSchema, type ValidatorType,
} from "@rjsf/utils";

import { isObject, type Json } from "../client";
import { Button } from "./buttons";
import { emptyOf, JsonEditor } from "./json";
import "./schema_form.css";

/** rjsf marks the options of a choice with an `$id`; references would be resolved from there. */
function withoutId(schema: object): object {
  return { ...schema, $id: undefined };
}

/** `@rjsf/validator-ajv8` compiles schemas with `new Function`, which our content security policy forbids. */
const validator: ValidatorType = {
  validateFormData(formData, schema) {
    const errors = new Validator(withoutId(schema), "2020-12", false).validate(formData ?? emptyOf(schema)).errors
      .filter(({ keyword }) => !["properties", "$ref", "items", "allOf", "if", "then", "else"].includes(keyword))
      .map(({ keyword: name, instanceLocation, error }) => {
        const property = instanceLocation.replace(/^#/, "").replaceAll("/", ".");
        return { name, property, message: error, stack: error };
      });
    return { errors, errorSchema: toErrorSchema(errors) };
  },
  isValid: (schema, formData, rootSchema) => {
    const definitions = (rootSchema as { $defs?: object; definitions?: object });
    const whole = { $defs: definitions.$defs ?? {}, definitions: definitions.definitions ?? {}, ...(schema as object) };
    return new Validator(withoutId(whole), "2020-12").validate(formData ?? null).valid;
  },
  rawValidation: () => ({}),
};

/** The buttons of the bare theme are icons of a font that does not exist here. */
function textButton(text: string, label: string) {
  return function TextButton({ id, className = "", disabled = false, onClick = () => undefined }: IconButtonProps) {
    return (
      <Button id={id} className={className} disabled={disabled} aria-label={label} title={label} onClick={onClick}>
        {text}
      </Button>
    );
  };
}

/** The bare theme leaves the list of the options without a label. */
function Choice({ schema, selector, optionSchemaField }: MultiSchemaFieldTemplateProps) {
  return (
    <div className="form-group">
      <label>{schema.title ? `Kind of ${schema.title}` : "Kind"} {selector}</label>
      {optionSchemaField}
    </div>
  );
}

const templates = {
  MultiSchemaFieldTemplate: Choice,
  ButtonTemplates: {
    AddButton: textButton("+ Add", "Add an entry"),
    RemoveButton: textButton("×", "Remove this entry"),
    MoveUpButton: textButton("↑", "Move this entry up"),
    MoveDownButton: textButton("↓", "Move this entry down"),
  },
};

/** For `"ui:field": "json"`: a value without a form of its own. While the text is no JSON, the value is the text. */
function JsonField({ schema, name, formData, onChange, fieldPathId }: FieldProps) {
  return (
    <JsonEditor label={schema.title ?? name} rows={5} value={formData as unknown}
      onChange={(value) => onChange(value ?? "no JSON", fieldPathId.path)} />
  );
}

/** A checkbox that nobody touches is a "no", and a value without a title has the name of the form. */
function prepare(schema: RJSFSchema, label: string): RJSFSchema {
  const { properties, required = [] } = schema;
  if (properties === undefined) return { ...schema, title: schema.title || label };
  const fields = Object.entries(properties).map(([name, field]) => {
    const isRequiredCheckbox = isObject(field) && field["type"] === "boolean" && required.includes(name);
    return [name, isRequiredCheckbox ? { default: false, ...field } : field] as const;
  });
  return { ...schema, properties: Object.fromEntries(fields) };
}

interface SchemaFormProps {
  label: string;
  schema: object;
  uiSchema: Json;
  value: unknown;
  onChange: (value: unknown) => void;
  onSubmit: (value: unknown) => void;
  /** The end of the form, with its buttons. */
  children: React.ReactNode;
}

export default function SchemaForm({ label, schema, uiSchema, value, onChange, onSubmit, children }: SchemaFormProps) {
  const prepared = useMemo(() => prepare(schema, label), [schema, label]);
  return (
    <Form className="schema-form" schema={prepared} uiSchema={uiSchema} formData={value} validator={validator}
      templates={templates} fields={{ json: JsonField }} showErrorList={false} noHtml5Validate focusOnFirstError
      onError={() => undefined} onChange={({ formData }) => onChange(formData)}
      onSubmit={({ formData }) => onSubmit(formData ?? emptyOf(schema))}>
      {children}
    </Form>
  );
}
