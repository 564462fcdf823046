/** Labelled fields, forms that change something on the server, and values that are entered as a form or as JSON. */
import { lazy, Suspense, useState } from "react";

import { isObject, type Json } from "../client";
import { Button } from "./buttons";
import { emptyOf, JsonEditor } from "./json";
import { ErrorBox, Loading } from "./states";

const SchemaForm = lazy(() => import("./schema_form"));

interface FieldProps<T> {
  label: string;
  value: T;
  onChange: (value: T) => void;
}

export function SearchField({ label, value, onChange }: FieldProps<string>) {
  return (
    <input type="search" aria-label={label} placeholder={label} value={value}
      onChange={(event) => onChange(event.target.value)} />
  );
}

interface SelectProps extends FieldProps<string> {
  options: (readonly [value: string, text: string])[];
  className?: string;
}

export function Select({ label, options, value, onChange, className = "" }: SelectProps) {
  return (
    <label className={className}>
      {label}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {options.map(([each, text]) => <option key={each} value={each}>{text}</option>)}
      </select>
    </label>
  );
}

export function CheckBox({ label, value, onChange, ...rest }: FieldProps<boolean> & { disabled?: boolean; role?: "switch" }) {
  return (
    <label className="inline">
      <input type="checkbox" checked={value} {...rest} onChange={(event) => onChange(event.target.checked)} /> {label}
    </label>
  );
}

/** The end of a form: why it failed, and its buttons. */
interface EndProps {
  submit: string;
  isDisabled?: boolean;
  error?: unknown;
  /** What stands before the button that submits. */
  actions?: React.ReactNode;
}

function FormEnd({ submit, isDisabled = false, error, actions }: EndProps) {
  return (
    <>
      <ErrorBox error={error} />
      <div className="row end">
        {actions}
        <Button kind="primary" type="submit" disabled={isDisabled}>{submit}</Button>
      </div>
    </>
  );
}

interface FormProps extends EndProps {
  label?: string;
  onSubmit: () => void;
  children: React.ReactNode;
}

export function Form({ label, onSubmit, children, ...end }: FormProps) {
  return (
    <form className="stack" aria-label={label} onSubmit={(event) => { event.preventDefault(); onSubmit(); }}>
      {children}
      <FormEnd {...end} />
    </form>
  );
}

/** A schema with one of these says which fields there are. */
const FORMS = ["type", "properties", "enum", "anyOf", "oneOf", "allOf", "$ref"];

interface SchemaInputProps extends EndProps {
  label: string;
  /** Without a schema, or with one that says nothing, the value is entered as JSON. */
  schema: object | undefined;
  uiSchema?: Json;
  value?: unknown;
  onSubmit: (value: unknown) => void;
}

export function SchemaInput({ label, schema, uiSchema = {}, value: initial, onSubmit, ...end }: SchemaInputProps) {
  const isForm = schema !== undefined && FORMS.some((keyword) => keyword in schema);
  const [value, setValue] = useState<unknown>(initial ?? (isForm ? undefined : {}));
  const [isJson, setJson] = useState(!isForm);
  const { type, properties = {} } = (schema ?? {}) as { type?: unknown; properties?: Json };
  const hasToggle = isForm && (type !== "object" || Object.keys(properties).length > 0);
  const isUnfit = value === undefined || (type === "object" && !isObject(value));
  const toggle = () => {
    setJson(!isJson);
    if (schema) setValue(value ?? emptyOf(schema));
  };
  return (
    <section className="stack" aria-label={label}>
      <div className="row between">
        <h3>{label}</h3>
        {hasToggle && <Button kind="quiet" onClick={toggle}>{isJson ? "As a form" : "As JSON"}</Button>}
      </div>
      {isJson || !isForm ? (
        <Form {...end} isDisabled={end.isDisabled === true || isUnfit} onSubmit={() => onSubmit(value)}>
          <JsonEditor label={`${label} as JSON`} value={value} onChange={setValue} />
        </Form>
      ) : (
        <Suspense fallback={<Loading what="the form" />}>
          <SchemaForm label={label} schema={schema} uiSchema={uiSchema} value={value} onChange={setValue} onSubmit={onSubmit}>
            <FormEnd {...end} />
          </SchemaForm>
        </Suspense>
      )}
    </section>
  );
}
