"""A chat behind Django, in one file: each request is a run.

pip install django gunicorn openai
OPENAI_API_KEY=... gunicorn django_chat:application
curl 'localhost:8000/chat?user=maria&text=Where+is+my+order'
"""

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.urls import path
from openai import OpenAI

import freezeframe

freezeframe.instrument()

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "127.0.0.1"], SECRET_KEY="not one for production")
client = OpenAI()


@freezeframe.tool
def find_order(user: str) -> str:
    """Look up a user's order; in a replay it is answered from the recording."""
    return f"order of {user}: packed"


def chat(request: HttpRequest) -> JsonResponse:
    """Answer in one piece."""
    prompt = f"{find_order(str(request.GET['user']))}. {request.GET['text']}"
    answer = client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}])
    return JsonResponse({"answer": answer.choices[0].message.content})


def stream(request: HttpRequest) -> StreamingHttpResponse:
    """Answer piece by piece."""
    chunks = client.chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": str(request.GET["text"])}], stream=True
    )
    return StreamingHttpResponse((chunk.choices[0].delta.content or "" for chunk in chunks), content_type="text/plain")


urlpatterns = [path("chat", chat), path("stream", stream)]
application = get_wsgi_application()
