/** The parts that pages are made of. `markdown`, `content` and `schema_form` are large: import them where they are used. */
export * from "./buttons";
export * from "./form";
export * from "./json";
export * from "./layout";
export * from "./states";
