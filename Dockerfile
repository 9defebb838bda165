# docker build -t gpu-advisor .
# docker run --rm -p 8501:8501 --read-only --tmpfs /tmp --cap-drop ALL \
#   --security-opt no-new-privileges --memory 4g --pids-limit 256 gpu-advisor
#
# Python 3.11.16 on Debian, the release with the security fixes of August 2026. Several public
# repositories pin the same digest for this tag (read 2026-11-22); the digest decides, the tag says
# what it is. For a newer one: docker buildx imagetools inspect python:3.11-slim
FROM python:3.11.16-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7

WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt ".[prices]" && rm -rf /src/*

# Nothing is written but below /tmp: the root file system may be read-only.
ENV HOME=/tmp \
    GPU_ADVISOR_PUBLIC=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_PORT=8501
# By number, so that orchestrators can see that it is not root.
USER 10001:10001
WORKDIR /tmp
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=6s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=5)"]
CMD ["gpu-advisor", "web"]
