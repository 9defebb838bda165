# docker build -t gpu-advisor . && docker run --rm -p 8501:8501 gpu-advisor
FROM python:3.11-slim

WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt ".[prices]" && rm -rf /src/*

RUN useradd --create-home advisor
USER advisor
WORKDIR /home/advisor

ENV STREAMLIT_SERVER_ADDRESS=0.0.0.0 \
    STREAMLIT_SERVER_HEADLESS=true \
    STREAMLIT_SERVER_PORT=8501
EXPOSE 8501
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=5)"]
CMD ["gpu-advisor", "web"]
