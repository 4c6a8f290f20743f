#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "server/model_service.h"
#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

class WatchTest : public ServiceTest {
 protected:
  using Reader = std::unique_ptr<grpc::ClientReader<v1::WatchModelResponse>>;

  Reader Watch(grpc::ClientContext& context, const std::string& name) {
    v1::WatchModelRequest request;
    request.set_name(name);
    return models_->WatchModel(&context, request);
  }

  // The next message whose model is in `state`; fails if the stream ends before.
  static v1::WatchModelResponse Await(const Reader& reader, v1::ModelState state) {
    v1::WatchModelResponse message;
    while (reader->Read(&message)) {
      if (message.model().state() == state) return message;
    }
    ADD_FAILURE() << "the watch ended: " << reader->Finish().error_message();
    return message;
  }

  std::future<grpc::Status> StartLoad(const v1::LoadModelRequest& request) {
    return std::async(std::launch::async, [this, request] {
      v1::LoadModelResponse response;
      return models_->LoadModel(Call().get(), request, &response);
    });
  }
};

TEST_F(WatchTest, TellsOfALifeFromBeforeTheLoadToTheEnd) {
  const auto context = Call();
  const Reader reader = Watch(*context, "a");
  v1::LoadModelRequest request = RequestFor("a", KiB(20), 1);
  request.mutable_retain_ttl()->set_seconds(0);
  files_.Hold("a.safetensors");
  std::future<grpc::Status> load = StartLoad(request);

  v1::WatchModelResponse loading = Await(reader, v1::MODEL_STATE_LOADING);
  EXPECT_EQ(loading.model().name(), "a");
  while (loading.progress().stage() != "read") loading = Await(reader, v1::MODEL_STATE_LOADING);
  EXPECT_EQ(loading.progress().bytes_total(), KiB(20).count());
  files_.Release();
  EXPECT_TRUE(load.get().ok());

  EXPECT_FALSE(Await(reader, v1::MODEL_STATE_ACTIVE).has_progress());
  Unload("a");
  EXPECT_EQ(Await(reader, v1::MODEL_STATE_GONE).error(), "");
  v1::WatchModelResponse none;
  EXPECT_FALSE(reader->Read(&none));
  EXPECT_EQ(ReasonOf(reader->Finish()), "OK");
}

TEST_F(WatchTest, EndsWithTheReasonOfALoadThatFailed) {
  const auto context = Call();
  const Reader reader = Watch(*context, "a");
  reader->WaitForInitialMetadata();  // the watch has begun
  v1::LoadModelRequest request = RequestFor("a", KiB(20), 1);
  files_.FailRead(1);
  EXPECT_EQ(ReasonOf(StartLoad(request).get()), "FILE_UNREADABLE");
  const v1::WatchModelResponse last = Await(reader, v1::MODEL_STATE_GONE);
  EXPECT_NE(last.error(), "");
  EXPECT_EQ(last.model().name(), "a");
  v1::WatchModelResponse none;
  EXPECT_FALSE(reader->Read(&none));
  EXPECT_EQ(ReasonOf(reader->Finish()), "OK");
}

TEST_F(WatchTest, AFailedReplacementDoesNotEndTheWatchOfWhatIsActive) {
  Load(RequestFor("a", KiB(20), 1));
  const auto context = Call();
  const Reader reader = Watch(*context, "a");
  Await(reader, v1::MODEL_STATE_ACTIVE);
  v1::LoadModelRequest request = RequestFor("a", KiB(20), 1);
  request.set_path("models/none.safetensors");
  EXPECT_EQ(ReasonOf(StartLoad(request).get()), "FILE_NOT_FOUND");
  Unload("a");
  EXPECT_EQ(Await(reader, v1::MODEL_STATE_RETAINED).error(), "");
}

TEST_F(WatchTest, NoMoreAreServedThanConfigured) {
  const auto first_context = Call();
  const auto second_context = Call();
  const auto third_context = Call();
  Load(RequestFor("a", KiB(4), 1));
  const Reader first = Watch(*first_context, "a");
  const Reader second = Watch(*second_context, "a");
  Await(first, v1::MODEL_STATE_ACTIVE);
  Await(second, v1::MODEL_STATE_ACTIVE);
  EXPECT_EQ(ReasonOf(Watch(*third_context, "a")->Finish()), "LIMIT");
  first_context->TryCancel();
  EXPECT_TRUE(Comes([&] {
    const auto context = Call();
    const Reader again = Watch(*context, "a");
    v1::WatchModelResponse message;
    const bool served = again->Read(&message);
    context->TryCancel();
    return served;
  }));
}

TEST_F(WatchTest, EndsWhenTheServerStops) {
  const auto context = Call();
  const Reader reader = Watch(*context, "never");
  reader->WaitForInitialMetadata();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::WatchModelResponse none;
  EXPECT_FALSE(reader->Read(&none));
  EXPECT_FALSE(reader->Finish().ok());
}

}  // namespace
}  // namespace tenure
