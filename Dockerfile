# The projector as a service. Built and started by docker-compose.yml.

FROM python:3.13-slim AS build
WORKDIR /app
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY eventstore eventstore
COPY projector projector
COPY saver saver
COPY langgraph langgraph
RUN pip wheel --no-cache-dir --no-deps --wheel-dir dist .

FROM python:3.13-slim
WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes --requirement requirements.txt
COPY --from=build /app/dist dist
RUN pip install --no-cache-dir --no-deps dist/*.whl
# Nobody: the projector writes no files.
USER 65534:65534
ENTRYPOINT ["langgraph-kafka"]
CMD ["projector", "run"]
