// The REST interface's own description, shown by Swagger UI from this server.
window.SwaggerUIBundle({
  url: "/openapi.json",
  domNode: document.getElementById("docs"),
  validatorUrl: null,
  deepLinking: true,
});
