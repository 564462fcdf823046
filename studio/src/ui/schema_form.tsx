/** A form drawn from a JSON Schema. Import it with `lazy`: rjsf is large. */
import { Validator } from "@cfworker/json-schema";
// Not from "@rjsf/core": its index imports the validator that our content security policy forbids.
import Form from "@rjsf/core/lib/components/Form.js";
import { type IconButtonProps, toErrorSchema, type ValidatorType } from "@rjsf/utils";

import { Button } from "./button";
import "./schema_form.css";

/** `@rjsf/validator-ajv8` compiles schemas with `new Function`, which our content security policy forbids. */
const validator: ValidatorType = {
  validateFormData(formData, schema) {
    const errors = new Validator(schema as object, "2020-12", false).validate(formData).errors
      .filter((error) => !["properties", "$ref", "items", "allOf"].includes(error.keyword))
      .map((error) => ({ name: error.keyword, property: error.instanceLocation.replace(/^#/, "").replaceAll("/", "."), message: error.error, stack: error.error }));
    return { errors, errorSchema: toErrorSchema(errors) };
  },
  isValid: (schema, formData, rootSchema) => {
    const definitions = (rootSchema as { $defs?: object; definitions?: object });
    const whole = { $defs: definitions.$defs ?? {}, definitions: definitions.definitions ?? {}, ...(schema as object) };
    return new Validator(whole, "2020-12").validate(formData).valid;
  },
  rawValidation: () => ({}),
};

/** The buttons of the bare theme are icons of a font that does not exist here. */
function textButton(text: string, label: string) {
  return function TextButton({ id, className, disabled, onClick }: IconButtonProps) {
    return (
      <Button id={id} className={className ?? ""} disabled={disabled ?? false} aria-label={label} title={label} {...(onClick ? { onClick } : {})}>
        {text}
      </Button>
    );
  };
}

const templates = {
  ButtonTemplates: {
    AddButton: textButton("+ Add", "Add an entry"),
    RemoveButton: textButton("×", "Remove this entry"),
    MoveUpButton: textButton("↑", "Move this entry up"),
    MoveDownButton: textButton("↓", "Move this entry down"),
    CopyButton: textButton("Copy", "Copy this entry"),
    ClearButton: textButton("×", "Clear this field"),
  },
};

interface SchemaFormProps {
  schema: object;
  value?: unknown;
  submitLabel: string;
  isBusy?: boolean;
  onSubmit: (value: unknown) => void;
}

export default function SchemaForm({ schema, value, submitLabel, isBusy = false, onSubmit }: SchemaFormProps) {
  return (
    <Form className="schema-form" schema={schema} formData={value} validator={validator} templates={templates} showErrorList={false} noHtml5Validate
      focusOnFirstError onError={() => undefined} uiSchema={{ "ui:options": { label: true } }} onSubmit={({ formData }) => onSubmit(formData ?? {})}>
      <Button kind="primary" type="submit" disabled={isBusy}>{submitLabel}</Button>
    </Form>
  );
}
