// The entry points of streams and events.

#include <chrono>

#include "tests/support/emulated_driver/cuda_driver.h"
#include "tests/support/emulated_driver/cuda_transfer.h"

namespace tenure::emulated {
namespace {

CUresult Create(EntryPoint entry, CUstream* into, unsigned flags) {
  return CallInCtx(entry, [&](Driver& driver, PrimaryCtx& ctx) {
    if (into == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::shared_ptr<Stream> stream = Stream::Start(ctx, flags == CU_STREAM_DEFAULT);
    if (stream == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *into = reinterpret_cast<CUstream>(driver.streams.Add(std::move(stream)));
    return CUDA_SUCCESS;
  });
}

// Runs `body(ctx, stream)` for a handle; the stream of the NULL stream is null.
template <typename Body>
CUresult CallOnStream(EntryPoint entry, CUstream handle, const Body& body) {
  return CallInCtx(entry, [&](Driver& driver, PrimaryCtx& ctx) {
    std::shared_ptr<Stream> stream;
    const CUresult found = FindStream(driver, handle, stream);
    if (found != CUDA_SUCCESS) return found;
    return body(stream == nullptr ? ctx : stream->ctx(), stream.get());
  });
}

// Runs `body(event)` for a handle.
template <typename Body>
CUresult CallOnEvent(EntryPoint entry, CUevent handle, const Body& body) {
  return CallInCtx(entry, [&](Driver& driver, PrimaryCtx&) {
    const std::shared_ptr<Event> event = driver.events.Find(handle);
    return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(driver, *event);
  });
}

CUresult Elapsed(EntryPoint entry, float* milliseconds, CUevent begin, CUevent end) {
  return CallOnEvent(entry, begin, [&](Driver& driver, Event& first) {
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::shared_ptr<Event> second = driver.events.Find(end);
    if (second == nullptr || !first.timing() || !second->timing()) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    const auto from = first.last();
    const auto to = second->last();
    if (from == nullptr || to == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!from->done() || !to->done()) return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(to->at() - from->at()).count();
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return Create(EntryPoint::kStreamCreate, phStream, Flags);
}

// Priorities order kernels only, and there are none.
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int) {
  return Create(EntryPoint::kStreamCreateWithPriority, phStream, flags);
}

CUresult CUDAAPI cuStreamDestroy(CUstream hStream) {
  return CallInCtx(EntryPoint::kStreamDestroy, [&](Driver& driver, PrimaryCtx&) {
    const std::shared_ptr<Stream> stream = driver.streams.Remove(hStream);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    stream->Close();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuStreamSynchronize(CUstream hStream) {
  return CallOnStream(EntryPoint::kStreamSynchronize, hStream, [](PrimaryCtx& ctx, Stream* stream) {
    if (stream == nullptr) {
      ctx.SynchronizeBlocking();
    } else {
      stream->Drain();
    }
    return ctx.Health();
  });
}

CUresult CUDAAPI cuStreamQuery(CUstream hStream) {
  return CallOnStream(EntryPoint::kStreamQuery, hStream, [](PrimaryCtx& ctx, Stream* stream) {
    const CUresult health = ctx.Health();
    if (health != CUDA_SUCCESS) return health;
    const bool idle = stream == nullptr ? ctx.BlockingIdle() : stream->Idle();
    return idle ? ctx.Health() : CUDA_ERROR_NOT_READY;
  });
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return CallOnEvent(EntryPoint::kStreamWaitEvent, hEvent, [&](Driver& driver, Event& event) {
    if (Flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Stream> stream;
    const CUresult found = FindStream(driver, hStream, stream);
    const std::shared_ptr<Recording> captured = event.last();
    if (found != CUDA_SUCCESS || captured == nullptr) return found;
    if (stream == nullptr) {
      captured->Wait();
    } else {
      stream->Enqueue([captured] { captured->Wait(); });
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  return CallInCtx(EntryPoint::kEventCreate, [&](Driver& driver, PrimaryCtx& ctx) {
    constexpr unsigned kKnown =
        CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    const bool timing = (Flags & CU_EVENT_DISABLE_TIMING) == 0;
    if (phEvent == nullptr || (Flags & ~kKnown) != 0 ||
        ((Flags & CU_EVENT_INTERPROCESS) != 0 && timing)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *phEvent = reinterpret_cast<CUevent>(driver.events.Add(std::make_shared<Event>(ctx, timing)));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent) {
  return CallInCtx(EntryPoint::kEventDestroy, [&](Driver& driver, PrimaryCtx&) {
    return driver.events.Remove(hEvent) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream) {
  return CallOnEvent(EntryPoint::kEventRecord, hEvent, [&](Driver& driver, Event& event) {
    std::shared_ptr<Stream> stream;
    const CUresult found = FindStream(driver, hStream, stream);
    if (found != CUDA_SUCCESS) return found;
    const PrimaryCtx& ctx = stream == nullptr ? *CtxStack().back() : stream->ctx();
    if (&ctx != &event.ctx()) return CUDA_ERROR_INVALID_HANDLE;
    event.Record(stream.get());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent) {
  return CallOnEvent(EntryPoint::kEventQuery, hEvent, [](Driver&, Event& event) {
    const CUresult health = event.ctx().Health();
    if (health != CUDA_SUCCESS) return health;
    const auto captured = event.last();
    const bool done = captured == nullptr || captured->done();
    return done ? event.ctx().Health() : CUDA_ERROR_NOT_READY;
  });
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent) {
  return CallOnEvent(EntryPoint::kEventSynchronize, hEvent, [](Driver&, Event& event) {
    if (const auto captured = event.last()) captured->Wait();
    return event.ctx().Health();
  });
}

CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return Elapsed(EntryPoint::kEventElapsedTime, pMilliseconds, hStart, hEnd);
}

// The first version, of programs that were built with an older header.
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return Elapsed(EntryPoint::kEventElapsedTime, pMilliseconds, hStart, hEnd);
}

}  // extern "C"

}  // namespace tenure::emulated
