#include "client/cpp/cuda_events.h"

#include <gtest/gtest.h>

#include "tests/client/cuda_machine.h"

namespace tenure::client {
namespace {

TEST(CudaEventsTest, AnEventIsReachedOnceTheWorkBeforeItHasEnded) {
  const std::shared_ptr<CudaDevice> device = Device(kFirstGpu);
  const std::shared_ptr<CudaEvents> events = DriverCudaEvents(device);
  ASSERT_TRUE(events->Available().ok());
  CUevent event = nullptr;
  {
    const CudaScope scope(*device);
    ASSERT_TRUE(scope.status().ok());
    TENURE_CALL_DRIVER(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
    TENURE_CALL_DRIVER(cuEventRecord, event, device->stream());
    TENURE_CALL_DRIVER(cuStreamSynchronize, device->stream());
  }
  // Also where no context is current.
  EXPECT_TRUE(events->Reached(event));
  Machine().Fail("cuEventQuery", CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(events->Reached(event));
  {
    const CudaScope scope(*device);
    TENURE_CALL_DRIVER(cuEventDestroy, event);
  }
  EXPECT_FALSE(events->Reached(event));
}

TEST(CudaEventsTest, MemoryOfTheHostAsksTheDriverToo) {
  Machine();
  EXPECT_TRUE(DriverCudaEvents(nullptr)->Available().ok());
}

}  // namespace
}  // namespace tenure::client
